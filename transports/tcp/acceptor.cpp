#include "transports/tcp/acceptor.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transports/tcp/socket.hpp"

namespace capstan::tcp {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t spare_guests = 64;  // strangers, besides one for each rank
constexpr int most_at_once = 64;          // the rest waits while others are served
constexpr auto pause_time = 100ms;

}  // namespace

void Acceptor::listen(bool on) {
  if (on == listening_) return;
  listening_ = on;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const int fd = listeners_[i].get();
    on ? meeting_.poller.add(fd, {listener, static_cast<std::uint32_t>(i)}, true, false)
       : meeting_.poller.remove(fd);
  }
}

void Acceptor::accept_from_listener(std::uint32_t which) {
  for (int i = 0; i < most_at_once; ++i) {
    Accepted accepted = accept_from(listeners_[which].get());
    if (accepted.socket.valid()) {
      admit(std::move(accepted.socket), std::move(accepted.from));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return pause();
    } else if (would_block(errno)) {
      return;
    }  // else that one gave up, or a signal came: look for the next
  }
}

/// Out of descriptors or memory: who waits would be announced without end.
void Acceptor::pause() {
  meeting_.complaints.about("whoever comes next",
                            fmt::format("{}: {}", error_text(errno), descriptor_remedy));
  listen(false);
  resume_ = Deadline::in(pause_time);
  meeting_.wake_at(resume_);
}

void Acceptor::admit(FileDescriptor socket, std::string from) {
  if (guests_.size() >= static_cast<std::size_t>(meeting_.ranks) + spare_guests) {
    meeting_.complaints.about(guests_.begin()->second.from, "too many others have come since");
    drop(guests_.begin());  // a rank tries again
  }
  const Deadline due = Deadline::in(meeting_.handshake_timeout);
  const std::uint32_t id = next_id_++;
  tune(socket.get(), meeting_.peer_timeout);
  meeting_.poller.add(socket.get(), {guest, id}, true, false);
  meeting_.wake_at(due);
  guests_.emplace(id, Guest{std::move(socket), std::move(from), due});
  serve(id);
}

Acceptor::Guests::iterator Acceptor::drop(Guests::iterator guest) {
  if (guest->second.socket.valid()) meeting_.poller.remove(guest->second.socket.get());
  return guests_.erase(guest);
}

void Acceptor::serve(std::uint32_t id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) return;
  Guest& guest = found->second;
  bool stays = false;
  try {
    stays = listen_to(guest);
  } catch (const Malformed& error) {
    const bool other = guest.reader.other_version();
    refuse(guest, other ? Reason::other_version : Reason::malformed, error.what());
  }
  if (!stays) drop(found);
}

/// Reads all that it has to say for now. False when it is to be dropped.
bool Acceptor::listen_to(Guest& guest) {
  while (guest.socket.valid()) {
    const auto space = guest.reader.space();
    const ssize_t got = ::recv(guest.socket.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return would_block(errno);
    if (got == 0) {
      // Without a word, or after a Hello, it is no stranger: it may have found another way.
      if (guest.reader.inside_message()) throw Malformed("it hung up in the middle of a message");
      return false;
    }
    guest.reader.commit(static_cast<std::size_t>(got));
    const auto message = guest.reader.take();
    if (message && !hear(guest, *message)) return false;
  }
  return false;
}

bool Acceptor::hear(Guest& guest, const Message& message) {
  const auto* hello = std::get_if<Hello>(&message);
  const auto* proof = std::get_if<Proof>(&message);
  if (hello && !guest.hello) return greet(guest, *hello);
  if (proof && guest.hello) return check(guest, *proof);
  throw Malformed("it sends a message out of turn");
}

bool Acceptor::greet(Guest& guest, const Hello& hello) {
  const bool exists = hello.from >= 0 && hello.from < meeting_.ranks &&
                      hello.to == meeting_.self.value() && hello.from != hello.to &&
                      hello.ranks == meeting_.ranks;
  const Rank from{exists ? hello.from : hello.to};
  if (!exists || !meeting_.address_of(from)) {
    return refuse(guest, Reason::wrong_rank,
                  fmt::format("it says that it is rank {} of {}, and looks for rank {}", hello.from,
                              hello.ranks, hello.to));
  }
  if (hello.segment != meeting_.segment.value()) {
    return refuse(guest, Reason::wrong_segment,
                  fmt::format("it says that it is rank {}, with a segment of {} bytes, not {}",
                              hello.from, hello.segment, meeting_.segment.value()),
                  meeting_.segment.value());
  }
  if (meeting_.is_settled(from)) return refuse(guest, Reason::crossed, {});
  guest.hello = hello;
  guest.nonce = random_value<Nonce>();
  guest.due = Deadline::in(meeting_.handshake_timeout);
  meeting_.wake_at(guest.due);
  Reply reply{.nonce = guest.nonce};
  reply.proof = prove(Speaker::acceptor, meeting_.address_of(from)->token, meeting_.own.token,
                      hello, guest.nonce);
  return send_all(guest.socket.get(), bytes_of(reply));
}

/// False in any case: if all is well, it is no guest any more.
bool Acceptor::check(Guest& guest, const Proof& proof) {
  const Rank from{guest.hello->from};
  const Digest expected = prove(Speaker::opener, meeting_.address_of(from)->token,
                                meeting_.own.token, *guest.hello, guest.nonce);
  if (!same(proof.proof, expected)) {
    return refuse(guest, Reason::wrong_token,
                  fmt::format("it says that it is rank {}, but lacks the token", from.value()));
  }
  if (meeting_.is_settled(from)) return refuse(guest, Reason::crossed, {});
  if (meeting_.leads(from) && !send_all(guest.socket.get(), bytes_of(Welcome{}))) return false;
  meeting_.poller.remove(guest.socket.get());
  meeting_.settle({from, std::move(guest.socket), guest.from, {}});
  return false;
}

/// False, as it is to be dropped.
bool Acceptor::refuse(Guest& guest, Reason reason, std::string_view complaint,
                      std::uint64_t detail) {
  if (!complaint.empty()) meeting_.complaints.about(guest.from, complaint);
  send_all(guest.socket.get(), bytes_of(Refusal{.reason = reason, .detail = detail}));
  ::shutdown(guest.socket.get(), SHUT_WR);
  return false;
}

void Acceptor::turn_away(Rank peer) {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const bool is_it = guest->second.hello && guest->second.hello->from == peer.value();
    if (is_it) refuse(guest->second, Reason::crossed, {});
    guest = is_it ? drop(guest) : std::next(guest);
  }
}

void Acceptor::look_at_clock() {
  if (resume_.expired()) {
    resume_ = Deadline::never();
    listen(true);
  }
  meeting_.wake_at(resume_);
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const std::uint32_t id = guest->first;
    if (guest->second.due.expired()) serve(id);  // it may have spoken while this rank did not look
    guest = guests_.lower_bound(id);
    if (guest == guests_.end() || guest->first != id) continue;
    const bool late = guest->second.due.expired();
    if (late)
      meeting_.complaints.about(guest->second.from, "it did not prove to be a rank in time");
    if (!late) meeting_.wake_at(guest->second.due);
    guest = late ? drop(guest) : std::next(guest);
  }
}

}  // namespace capstan::tcp
