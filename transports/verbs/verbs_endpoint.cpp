// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/verbs_endpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "capstan/error.hpp"
#include "transports/verbs/gid.hpp"

namespace capstan::verbs {
namespace {

using namespace std::chrono_literals;

// Room for arrivals: enough for several wakes of every peer. If it runs out, the hardware makes
// senders wait until there is room again.
constexpr int least_arrivals = 1024;
constexpr int arrivals_per_rank = 16;
constexpr int least_send_depth = 16;  // requests in flight to a peer
constexpr auto probe_interval = 100ms;

/// The meaning of a failed request for the connection to the peer.
std::string_view explain(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "its process or host has died, or the network between them is down";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return "it refuses what is written to it or read from it: it has failed, its transport is "
             "gone, or of another version";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return "this rank's own memory was refused: it was freed before it was sent, or capstan has "
             "a "
             "bug";
    default:
      return "see the device's log (dmesg)";
  }
}

int completions_for(const Device& device, int ranks, int send_depth, int depth) {
  const std::int64_t wanted = std::int64_t{ranks} * send_depth + depth;
  return static_cast<int>(std::min<std::int64_t>(wanted, device.limits.max_cqe));
}

}  // namespace

VerbsEndpoint::VerbsEndpoint(Rank self, int ranks, std::span<std::byte> segment,
                             const VerbsOptions& options)
    : self_(self),
      options_(options),
      device_(Device::open(self, options)),
      address_(VerbsAddress::of_this_process(Bytes{segment.size()}, options.piece)),
      receive_queue_(device_, std::max(least_arrivals, arrivals_per_rank * ranks)),
      channel_(
          made(library().create_comp_channel(device_.context.get()), "ibv_create_comp_channel")),
      completions_(made(library().create_cq(device_.context.get(),
                                            completions_for(device_, ranks, options.send_depth,
                                                            receive_queue_.depth()),
                                            nullptr, channel_.get(), 0),
                        "ibv_create_cq")),
      own_(device_.domain.get(), segment.data(), Bytes{segment.size()}, options.piece, 0),
      source_registrar_(device_.domain.get(), IBV_ACCESS_REMOTE_READ),
      target_registrar_(device_.domain.get(), IBV_ACCESS_LOCAL_WRITE),
      sources_(source_registrar_, {.bytes = options.cached_sources}),
      exposed_(source_registrar_, {.bytes = options.cached_sources}),
      targets_(target_registrar_, {.bytes = options.cached_sources}),
      device_registrar_(device_.domain.get(), options.gpu_direct),
      device_regions_([this](const DeviceBuffer& where, AddressRange memory) {
        return device_registrar_.register_memory(where, memory);
      }),
      peers_(ranks),
      greeter_(std::make_unique<Greeter>(device_, ranks, address_.id)) {
  const int flags = checked(::fcntl(descriptor(), F_GETFL), "fcntl");
  checked(::fcntl(descriptor(), F_SETFL, flags | O_NONBLOCK), "fcntl");
  device_.describe(address_);
  address_.greeter = greeter_->number();
}

std::optional<std::string> VerbsEndpoint::read_address(std::span<const std::byte> bytes,
                                                       VerbsAddress& peer) const {
  const auto decoded = VerbsAddress::decode(bytes);
  if (!decoded) return "its address is none of this version's verbs";
  peer = *decoded;
  return address_.obstacle_to(peer);
}

/// Limits requests so that their completions never overrun the queue.
SendQueue::Shape VerbsEndpoint::shape_for(Rank rank) const {
  const int share = (completions_->cqe - receive_queue_.depth()) / peers_.size();
  const int depth = std::clamp(options_.send_depth, least_send_depth, device_.limits.max_qp_wr);
  if (share < least_send_depth) {
    throw SystemError(fmt::format(
        "{} has room for {} completions, too few for {} ranks; use more devices, or fewer ranks",
        device_.name, completions_->cqe, peers_.size()));
  }
  return {.depth = static_cast<std::uint32_t>(std::min(depth, share)),
          .inline_data = options_.inline_data,
          .peer = rank};
}

void VerbsEndpoint::add(Rank rank, const VerbsAddress& address, std::byte* mirror) {
  Peer& peer = peers_[rank];
  peer.address = address;
  peer.mirror =
      std::make_unique<Pieces>(device_.domain.get(), mirror, Bytes{address_.segment},
                               options_.piece, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  peer.connection = std::make_unique<Connection>(
      device_, SendQueue{device_, completions_.get(), receive_queue_.queue(), shape_for(rank)},
      own_, *peer.mirror, sources_, describe(rank));
  by_queue_pair_[peer.connection->end_info().queue_pair] = rank;
}

/// Both ends of a connection have to exist before either sends on it, or the hardware gives up.
/// Therefore each rank repeats its greeting until the peer has answered that its end is connected.
/// The first rank that receives this answer sends "ready" over the connection, where it cannot get
/// lost: then neither rank needs greetings any longer.
void VerbsEndpoint::connect_all(Deadline deadline) {
  constexpr auto first_interval = 5ms, longest_interval = 200ms;
  auto interval = first_interval;
  auto next = Deadline::Clock::now();
  while (!missing().empty()) {
    if (deadline.expired()) {
      throw BootstrapError(fmt::format("rank {}: connect: within {} there was no answer from {}",
                                       self_.value(), deadline.budget(), missing()));
    }
    if (Deadline::Clock::now() >= next) {
      for (int rank = 0; rank < peers_.size(); ++rank) {
        const Peer& peer = peers_[Rank{rank}];
        if (peer.connection && !peer.ready) greet(Rank{rank});
      }
      next = Deadline::Clock::now() + interval;
      interval = std::min(2 * interval, longest_interval);
    }
    while (const auto greeting = greeter_->receive()) handle_greeting(*greeting);
    progress();
    std::this_thread::sleep_for(200us);
  }
  greeter_.reset();
}

std::string VerbsEndpoint::missing() const {
  std::string names;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[Rank{rank}];
    if (!peer.connection || peer.ready) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", describe(Rank{rank}));
  }
  if (names.empty()) return names;
  return names + fmt::format(
                     ": alive but not in connect(), or not to be reached from {} ({}): check the "
                     "network between the hosts",
                     device_.name, text_of(device_.gid.gid));
}

std::string VerbsEndpoint::describe(Rank rank) const {
  const VerbsAddress& address = peers_[rank].address;
  ibv_gid gid{};
  std::ranges::copy(address.gid, gid.raw);
  return fmt::format("rank {} (process {} on host {}, {})", rank.value(), address.pid,
                     address.host(), text_of(gid));
}

std::string VerbsEndpoint::no_way_to(Rank rank, const SystemError& error) const {
  return fmt::format("rank {}: connect to {}: {}; check that {} and its device are in one network",
                     self_.value(), describe(rank), error.what(), device_.name);
}

/// The key of greetings of `from` to `to`, one of which is this rank.
Secret VerbsEndpoint::key_between(Rank from, Rank to) const {
  const auto end = [&](Rank rank) {
    return JobKey::End{rank.value(), rank == self_ ? address_.id : peers_[rank].address.id};
  };
  return options_.key.between("capstan verbs greeting v2", end(from), end(to));
}

void VerbsEndpoint::greet(Rank rank) {
  Peer& peer = peers_[rank];
  try {
    greeter_->greet(rank, peer.address,
                    Greeting{.from = self_.value(),
                             .answered = peer.known ? 1u : 0u,
                             .end = peer.connection->end_info()}
                        .sealed(key_between(self_, rank)));
  } catch (const SystemError& error) {
    throw BootstrapError(no_way_to(rank, error));
  }
}

void VerbsEndpoint::handle_greeting(const Greeting& greeting) {
  const Rank rank{greeting.from};
  if (greeting.from < 0 || greeting.from >= peers_.size() || !peers_[rank].connection) return;
  if (!greeting.is_sealed(key_between(rank, self_)))
    return warnings_.warn("a greeting", "it is from outside the job");
  Peer& peer = peers_[rank];
  if (!peer.known) {
    try {
      if (!peer.connection->establish(peer.address, greeting.end, options_.peer_timeout))
        return;  // the peer repeats its greeting
    } catch (const SystemError& error) {
      throw BootstrapError(no_way_to(rank, error));
    }
    peer.known = true;
    greet(rank);
  }
  if (greeting.answered != 0 && !peer.ready) {
    peer.ready = true;
    peer.connection->send({.kind = ControlMessage::Kind::ready});
    peer.connection->flush();
  }
}

void VerbsEndpoint::progress() {
  constexpr int at_once = 32;
  std::array<ibv_wc, at_once> completions;
  for (int count = at_once; count == at_once;) {
    count = ::ibv_poll_cq(completions_.get(), at_once, completions.data());
    if (count < 0) throw SystemError(fmt::format("rank {}: ibv_poll_cq failed", self_.value()));
    for (const ibv_wc& completion : std::span{completions}.first(static_cast<std::size_t>(count)))
      take(completion);
    receive_queue_.replenish();
  }
}

void VerbsEndpoint::take(const ibv_wc& completion) {
  if (completion.wr_id & ReceiveQueue::receive_mark) {
    const auto bytes = receive_queue_.take(completion);
    const auto sender = by_queue_pair_.find(completion.qp_num);
    const bool is_message =
        completion.status == IBV_WC_SUCCESS && (completion.wc_flags & IBV_WC_WITH_IMM) == 0;
    if (is_message && sender != by_queue_pair_.end()) handle_control(sender->second, bytes);
    return;
  }
  Connection& connection = *peers_[SendQueue::peer_of(completion.wr_id)].connection;
  if (completion.status == IBV_WC_SUCCESS) {
    connection.complete(completion.wr_id);
  } else {
    connection.lose(fmt::format("cannot be reached any more ({}): {}",
                                library().wc_status_str(completion.status),
                                explain(completion.status)));
  }
  connection.flush();
}

void VerbsEndpoint::handle_control(Rank rank, std::span<const std::byte> bytes) {
  Connection& connection = *peers_[rank].connection;
  const auto message = ControlMessage::decode(bytes, connection.pieces());
  if (!message) return connection.lose("sent a message that cannot be understood");
  const ControlMessage& control = *message;
  switch (control.kind) {
    case ControlMessage::Kind::ready:
      peers_[rank].ready = true;
      break;
    case ControlMessage::Kind::ask:
      tell_key(rank, control.piece);
      break;
    case ControlMessage::Kind::key:
      connection.learn_key(control.piece, control.key);
      break;
    case ControlMessage::Kind::goodbye:
      connection.lose("has destroyed its transport");
      break;
  }
  connection.flush();
}

void VerbsEndpoint::tell_key(Rank rank, std::uint64_t piece) {
  Connection& connection = *peers_[rank].connection;
  try {
    connection.send(
        {.kind = ControlMessage::Kind::key, .key = connection.key_of(piece), .piece = piece});
  } catch (const SystemError& error) {  // the peer would wait for ever: let it see the end instead
    connection.lose(
        fmt::format("was cut off, as no memory can be pinned for what it sends: {}", error.what()));
  }
}

void VerbsEndpoint::probe(Rank rank) {
  Peer& peer = peers_[rank];
  const auto now = Deadline::Clock::now();
  if (now - peer.probed < probe_interval) return;
  peer.probed = now;
  peer.connection->probe();
}

void VerbsEndpoint::detach_sources(Rank rank) {
  peers_[rank].connection->copy_sources();
  await(
      rank, [](const Connection& connection) { return !connection.reads_sources(); },
      "acknowledge what a cancelled call was sending to it");
}

void VerbsEndpoint::end_reads(Rank rank) {
  await(
      rank, [](const Connection& connection) { return !connection.awaits_reads(); },
      "send what was being read from it");
}

/// Gives the connection up if it is not `done` in time, or the device fails.
void VerbsEndpoint::await(Rank rank, const std::function<bool(const Connection&)>& done,
                          std::string_view owed) {
  Connection& connection = *peers_[rank].connection;
  const Deadline deadline = Deadline::in(longest_leave_.value_or(2 * options_.peer_timeout));
  while (!done(connection)) {
    try {
      progress();
    } catch (const SystemError& error) {
      connection.lose(fmt::format("was given up: {}", error.what()));
    }
    if (deadline.expired())
      connection.lose(
          fmt::format("was given up: within {} it did not {}", deadline.budget(), owed));
  }
}

/// Keys of memory of a device; null where the card cannot reach it.
std::shared_ptr<const MemoryKeys> VerbsEndpoint::on_device(const void* data, Bytes size) {
  return device_registrar_.open() ? device_regions_.acquire(data, size) : nullptr;
}

std::shared_ptr<const MemoryKeys> VerbsEndpoint::readable(const void* data, Bytes size,
                                                          MemoryKind kind) {
  return kind == MemoryKind::device ? on_device(data, size) : exposed_.acquire(data, size);
}

void VerbsEndpoint::forget(const void* data, Bytes size, MemoryKind kind) {
  if (kind == MemoryKind::device)
    device_regions_.forget(data);
  else
    exposed_.forget(data, size);
}

std::shared_ptr<RemoteRead> VerbsEndpoint::start_read(Rank rank, std::uint64_t address,
                                                      std::uint32_t key, void* to, Bytes size,
                                                      MemoryKind kind) {
  auto keys = kind == MemoryKind::device ? on_device(to, size) : targets_.acquire(to, size);
  if (!keys) return nullptr;
  return peers_[rank].connection->start_read(address, key, static_cast<std::byte*>(to), size,
                                             std::move(keys));
}

void VerbsEndpoint::leave() {
  const Deadline deadline = Deadline::in(2 * options_.peer_timeout);
  const auto await = [&](auto&& done) {
    const auto is_done = [&](const Peer& peer) {
      return !peer.ready || peer.connection->lost() || done(*peer.connection);
    };
    while (!std::ranges::all_of(peers_, is_done) && !deadline.expired()) progress();
  };
  await([](const Connection& connection) { return connection.pushed(); });
  for (Peer& peer : peers_) {
    if (!peer.ready) continue;
    peer.connection->send({.kind = ControlMessage::Kind::goodbye});
    peer.connection->flush();
  }
  await([](const Connection& connection) { return connection.settled(); });
}

void VerbsEndpoint::arm() {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (library().get_cq_event(channel_.get(), &queue, &unused) == 0)
    library().ack_cq_events(queue, 1);
  require_success(::ibv_req_notify_cq(completions_.get(), 0), "ibv_req_notify_cq");
}

}  // namespace capstan::verbs
