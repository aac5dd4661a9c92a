// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/store_client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr auto first_pause = 2ms;
constexpr auto longest_pause = 200ms;
constexpr auto attempt_time = 5s;
constexpr std::chrono::milliseconds most_beyond_deadline = 1s;

/// An attempt to connect has failed, but a later one may succeed.
class NotYet : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An attempt ran out of time. The deadline can cut the last attempt short: the error of an earlier
/// attempt then says more.
class Unanswered : public NotYet {
 public:
  using NotYet::NotYet;
};

/// The connection is of no more use.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string explain_connect_error(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "nothing listens there (connection refused)";
    case EAGAIN:
      return "its queue of new connections is full";
    case ETIMEDOUT:
      return "the host does not answer (down, or behind a firewall)";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return fmt::format("unreachable ({})", std::strerror(error));
    default:
      return std::strerror(error);
  }
}

std::uint32_t milliseconds_of(Deadline deadline) {
  constexpr auto for_ever = std::numeric_limits<std::uint32_t>::max();
  if (deadline.is_never()) return for_ever;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, for_ever - 1));
}

Deadline later(Deadline deadline, std::chrono::milliseconds extra) {
  return deadline.is_never() ? deadline : Deadline::in(deadline.remaining() + extra);
}

void sleep_within(std::chrono::milliseconds pause, Deadline deadline) {
  std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(pause, deadline.remaining()));
}

}  // namespace

StoreClient::StoreClient(Settings settings, Deadline deadline)
    : settings_(std::move(settings)), deadline_(deadline) {
  if (settings_.scope.size() > wire::max_scope) {
    throw InvalidArgument(fmt::format("a store scope of {} bytes: use up to {}",
                                      settings_.scope.size(), wire::max_scope));
  }
  const auto look = std::exchange(settings_.look, nullptr);
  int attempts = 0;
  std::string reason;
  for (std::chrono::milliseconds pause = first_pause;;
       pause = std::min<std::chrono::milliseconds>(2 * pause, longest_pause)) {
    try {
      ++attempts;
      connect(deadline);
      return;
    } catch (const Unanswered& error) {
      if (reason.empty()) reason = error.what();
    } catch (const NotYet& error) {
      reason = error.what();
    }
    if (deadline.expired()) {
      failed("join",
             fmt::format("{} ({} attempts within {}): check that {} runs, that all ranks name the "
                         "same address, and that this host has a way to it (CAPSTAN_INTERFACE, on "
                         "the host of the store, or CAPSTAN_STORE chooses another){}",
                         reason, attempts, deadline.budget(), settings_.served_by, caution()),
             ErrorCode::join_timed_out);
    }
    if (look) look();
    sleep_within(pause, deadline);
  }
}

/// Tries all addresses of the endpoint, and then those of a server that had to append to its name;
/// throws the last one's NotYet.
void StoreClient::connect(Deadline deadline) {
  std::vector<SocketAddress> addresses;
  try {
    addresses = resolve(settings_.endpoint);
  } catch (const SystemError& error) {
    throw NotYet(error.what());  // a name server may fail for a moment
  }
  is_local_ = addresses.front().is_loopback() || addresses.front().is_wildcard();
  const auto* local = std::get_if<AbstractEndpoint>(&settings_.endpoint);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    try {
      return try_connect(addresses[i], deadline.clamp(Deadline::in(attempt_time)));
    } catch (const NotYet&) {
      if (local && i == 0)
        for (const std::string& name : abstract_names(local->name + "-"))
          addresses.push_back(resolve(AbstractEndpoint{name}).front());
      if (i + 1 == addresses.size()) throw;
    }
  }
}

void StoreClient::try_connect(const SocketAddress& address, Deadline deadline) {
  Connected connected = connect_to(address, deadline);
  if (connected.error == ETIMEDOUT) throw Unanswered(explain(ETIMEDOUT, address));
  if (!connected.socket.valid()) throw NotYet(explain(connected.error, address));
  socket_ = std::move(connected.socket);
  conversation_ = wire::Conversation{wire::max_payload};
  if (address.family() != AF_UNIX) tune(socket_, wire::dead_host_time);
  check_owner();
  try {
    shake_hands(deadline);
  } catch (const MalformedMessage& error) {
    const bool other = error.kind() == MalformedMessage::Kind::other_protocol;
    failed("join", other ? "what answers there is not a Capstan store: check address and port"
                         : fmt::format("the server sent {}", error.what()));
  } catch (const ConnectionLost& error) {
    throw NotYet(fmt::format("{} during the handshake", error.what()));
  } catch (const TimedOut&) {
    throw Unanswered("something accepts connections there, but does not answer as a Capstan store");
  }
}

/// Names the address that a host's name has led to.
std::string StoreClient::explain(int error, const SocketAddress& address) const {
  const auto numeric = address.endpoint();
  if (numeric == settings_.endpoint) return explain_connect_error(error);
  return fmt::format("{}: {}", to_string(numeric), explain_connect_error(error));
}

/// Any user of this host could listen under the name of a Unix socket.
void StoreClient::check_owner() const {
  if (settings_.any_user || !std::holds_alternative<AbstractEndpoint>(settings_.endpoint)) return;
  if (const auto uid = peer_uid(socket_); uid != ::geteuid())
    throw NotYet(
        fmt::format("user {} listens under this job's name, not user {}, and is no part "
                    "of the job",
                    uid, ::geteuid()));
}

void StoreClient::shake_hands(Deadline deadline) {
  handshake::Initiator proofs;
  send(proofs.hello(), deadline);
  const auto first = receive(deadline);
  if (const auto* refusal = std::get_if<wire::Refusal>(&first)) refused(*refusal);
  const auto* challenge = std::get_if<wire::Challenge>(&first);
  if (!challenge) unexpected("join");

  const wire::Membership self{settings_.rank, settings_.size, settings_.scope};
  send(proofs.claim(*challenge, self, settings_.secret), deadline);
  const auto second = receive(deadline);
  if (const auto* refusal = std::get_if<wire::Refusal>(&second)) refused(*refusal);
  const auto* welcome = std::get_if<wire::Welcome>(&second);
  if (!welcome) unexpected("join");
  if (!proofs.trusts(*welcome)) {
    failed("join",
           "the server does not know the job's secret: another job's store, or an "
           "impostor, listens there",
           ErrorCode::wrong_secret);
  }
  conversation_.seal(proofs.keys().for_initiator(), wire::max_payload);
}

void StoreClient::refused(const wire::Refusal& refusal) const {
  switch (refusal.reason) {
    case wire::FailureReason::scope_closed:
      throw NotYet(
          "the store there does not serve this communicator (rank 0 has not joined it "
          "yet, or all its ranks have joined)");
    case wire::FailureReason::full:
      throw NotYet(refusal.text);
    case wire::FailureReason::wrong_secret:
      failed("join",
             "wrong secret: give all ranks of the job the same one (CAPSTAN_SECRET), and "
             "check that the store there is this job's",
             ErrorCode::wrong_secret);
    case wire::FailureReason::rank_taken:
      throw RankTaken(failure_text(
          "join", fmt::format("{}: two processes have the same rank, or two jobs share a store",
                              refusal.text)));
    case wire::FailureReason::wrong_size:
      failed("join", fmt::format("{}: start all ranks with the same size", refusal.text));
    default:
      failed("join", fmt::format("the server refused: {}", refusal.text));
  }
}

void StoreClient::put(std::string_view key, std::span<const std::byte> value) {
  wire::check_key(key);
  wire::check_value(key, value);
  const auto call = fmt::format("put(\"{}\")", key);
  const wire::Put request{std::string{key}, {value.begin(), value.end()}};
  const auto reply = ask(call, request, answer_deadline());
  if (const auto* failure = std::get_if<wire::Failure>(&reply)) failed(call, failure->text);
  if (!std::holds_alternative<wire::Done>(reply)) unexpected(call);
}

std::vector<std::byte> StoreClient::get(std::string_view key, Deadline deadline) {
  wire::check_key(key);
  const auto call = fmt::format("get(\"{}\")", key);
  auto reply = ask(call, wire::Get{std::string{key}, milliseconds_of(deadline)},
                   later(deadline, std::min<std::chrono::milliseconds>(settings_.answer_timeout,
                                                                       most_beyond_deadline)));
  if (auto* value = std::get_if<wire::Value>(&reply)) return std::move(value->value);
  const auto* failure = std::get_if<wire::Failure>(&reply);
  if (!failure) unexpected(call);
  if (failure->reason == wire::FailureReason::timed_out) {
    throw TimedOut(
        fmt::format("{}{}: nobody put this key within {}; {}: see whether those ranks "
                    "started, crashed or hang{}",
                    self(), call, deadline.budget(), failure->text, caution()));
  }
  failed(call, fmt::format("{} is leaving, so that nobody will put this key; {}",
                           settings_.served_by, failure->text));
}

std::optional<std::vector<std::byte>> StoreClient::try_get(std::string_view key) {
  wire::check_key(key);
  const auto call = fmt::format("try_get(\"{}\")", key);
  auto reply = ask(call, wire::TryGet{std::string{key}}, answer_deadline());
  if (auto* value = std::get_if<wire::Value>(&reply)) return std::move(value->value);
  if (!std::holds_alternative<wire::Absent>(reply)) unexpected(call);
  return std::nullopt;
}

Deadline StoreClient::answer_deadline() const {
  return Deadline::in(settings_.answer_timeout).clamp(later(deadline_, most_beyond_deadline));
}

/// One request and its reply. Any failure leaves the connection out of step, so it ends.
wire::StoreMessage StoreClient::ask(const std::string& call, const wire::StoreMessage& request,
                                    Deadline deadline) {
  std::string what;
  try {
    if (!socket_.valid()) failed(call, "the connection failed earlier");
    send(request, deadline);
    return receive(deadline);
  } catch (const ConnectionLost& error) {
    what = fmt::format("{}: {} has ended or dropped this rank; its own output tells why",
                       error.what(), settings_.served_by);
  } catch (const TimedOut&) {
    what = fmt::format("no answer: {} hangs, is stopped or cannot be reached", settings_.served_by);
  } catch (const MalformedMessage& error) {
    what = fmt::format("the server sent {}", error.what());
  }
  socket_ = FileDescriptor{};
  failed(call, what);
}

void StoreClient::send(const wire::StoreMessage& message, Deadline deadline) {
  const auto frame = conversation_.encode(message);
  for (std::size_t sent = 0; sent < frame.size();) {
    const auto count = send_some(socket_, std::span{frame}.subspan(sent));
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (would_block(errno)) {
      if (!wait_for(socket_, POLLOUT, deadline)) throw TimedOut("send");
    } else {
      return;  // the server may have sent a reason before it closed: the next receive() reads it
    }
  }
}

wire::StoreMessage StoreClient::receive(Deadline deadline) {
  while (true) {
    if (auto message = conversation_.take()) return std::move(*message);
    const auto count = receive_some(socket_, conversation_.space());
    if (count > 0) {
      conversation_.commit(static_cast<std::size_t>(count));
    } else if (count == 0) {
      throw ConnectionLost("the connection was closed");
    } else if (would_block(errno)) {
      if (!wait_for(socket_, POLLIN, deadline)) throw TimedOut("receive");
    } else {
      throw ConnectionLost(fmt::format("the connection broke ({})", std::strerror(errno)));
    }
  }
}

void StoreClient::failed(const std::string& call, const std::string& what, ErrorCode code) const {
  throw BootstrapError(failure_text(call, what), code);
}

std::string StoreClient::failure_text(const std::string& call, const std::string& what) const {
  return fmt::format("{}{} at store {}: {}", self(), call, to_string(settings_.endpoint), what);
}

void StoreClient::unexpected(const std::string& call) {
  socket_ = FileDescriptor{};
  failed(call, "the server sent a message that has no place here");
}

std::string StoreClient::self() const {
  return settings_.rank < 0 ? std::string{} : fmt::format("rank {}: ", settings_.rank);
}

/// Some systems give a host's own name a loopback address.
std::string StoreClient::caution() const {
  if (!settings_.ranks_come_from_elsewhere || !is_local_) return {};
  return "; only ranks on one host reach this address: if there are other hosts, name one that "
         "they reach (CAPSTAN_STORE or MASTER_ADDR)";
}

}  // namespace capstan
