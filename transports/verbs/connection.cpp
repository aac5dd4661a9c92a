// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/random.hpp"

namespace capstan::verbs {
namespace {

constexpr int retries = 6;                   // 7 would mean for ever, in some drivers
constexpr int retries_for_room = 7;          // for ever: a slow receiver is not lost
constexpr std::uint8_t pause_for_room = 12;  // 0.64 ms
// Writes wait behind reads that the peer's hardware does not answer yet.
constexpr std::uint32_t most_reads = 8;  // measured: docs/lab-notebook.md#messages-that-cards-read
constexpr std::uint32_t sequence_mask = (1 << 24) - 1;

/// The exponent of the time to wait for an acknowledgement: 4.096 us times a power of two.
std::uint8_t timeout_for(std::chrono::milliseconds all_retries) {
  const double once =
      std::chrono::duration<double, std::micro>(all_retries).count() / (retries + 1);
  std::uint8_t exponent = 8;
  while (exponent < 24 && 4.096 * static_cast<double>(1 << (exponent + 1)) <= once) ++exponent;
  return exponent;
}

/// The most RDMA reads that the device answers at a time.
std::uint32_t reads_of(const Device& device) {
  return static_cast<std::uint32_t>(
      std::clamp<int>(device.limits.max_qp_rd_atom, 1, static_cast<int>(most_reads)));
}

/// A registered copy of a caller's memory. The allocator often reuses its memory for the next copy,
/// which is registered then.
struct Copy {
  std::vector<std::byte> bytes;
  std::shared_ptr<const MemoryKeys> keys;
};

}  // namespace

Connection::Connection(const Device& device, SendQueue queue, Pieces& own, Pieces& mirror,
                       RegisteredSources& sources, std::string peer)
    : device_(&device),
      queue_(std::move(queue)),
      own_(&own),
      mirror_(&mirror),
      sources_(&sources),
      peer_(std::move(peer)),
      first_packet_(random_value<std::uint32_t>() & sequence_mask) {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = device.port_number;
  state.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  require_success(
      library().modify_qp(queue_.queue_pair(), &state,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      "ibv_modify_qp to INIT");
}

EndInfo Connection::end_info() {
  return {.queue_pair = queue_.queue_pair()->qp_num,
          .first_packet = first_packet_,
          .key = key_of(0),
          .reads = reads_of(*device_),
          .mirror = reinterpret_cast<std::uint64_t>(mirror_->memory())};
}

bool Connection::establish(const VerbsAddress& peer, const EndInfo& end,
                           std::chrono::milliseconds peer_timeout) {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_RTR;
  state.path_mtu = std::min(device_->port.active_mtu, static_cast<ibv_mtu>(peer.mtu));
  state.dest_qp_num = end.queue_pair;
  state.rq_psn = end.first_packet;
  state.max_dest_rd_atomic = static_cast<std::uint8_t>(reads_of(*device_));
  state.min_rnr_timer = pause_for_room;
  state.ah_attr = device_->route_to(peer);
  const int error =
      library().modify_qp(queue_.queue_pair(), &state,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == ETIMEDOUT) return false;
  require_success(error, "ibv_modify_qp to RTR");
  // Soft-RoCE may take a retried read of several packets for an error (Linux 6.1).
  if (device_->is_software) longest_read_ = std::uint64_t{128} << state.path_mtu;
  state.qp_state = IBV_QPS_RTS;
  state.sq_psn = first_packet_;
  state.timeout = timeout_for(peer_timeout);
  state.retry_cnt = retries;
  state.rnr_retry = retries_for_room;
  state.max_rd_atomic = static_cast<std::uint8_t>(std::clamp(
      end.reads, 1U,
      std::clamp(static_cast<std::uint32_t>(device_->limits.max_qp_init_rd_atom), 1U, most_reads)));
  require_success(
      library().modify_qp(queue_.queue_pair(), &state,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
      "ibv_modify_qp to RTS");
  remote_ = end.mirror;
  keys_.resize(mirror_->count());
  keys_[0] = {Key::State::known, end.key};
  return established_ = true;
}

void Connection::push(Bytes offset, const void* from, Bytes length) {
  if (lost_ || length.value() == 0) return;
  Write write{};
  write.offset = offset.value();
  write.length = length.value();
  const auto* source = from ? static_cast<const std::byte*>(from) : own_->memory() + offset.value();
  if (length <= Transport::snapshot) {
    std::memcpy(write.copy.data() + write.copy.size() - length.value(), source, length.value());
  } else {
    write.from = source;
    if (from) register_source(write);
  }
  ask_for_keys(write.offset, write.length);
  writes_.push_back(std::move(write));
}

void Connection::register_source(Write& write) {
  try {
    write.registration = sources_->acquire(write.from, Bytes{write.length});
  } catch (const InvalidArgument&) {
    copy_source(write);
  }
}

void Connection::copy_source(Write& write) {
  auto copy = std::make_shared<Copy>();
  copy->bytes.assign(write.from, write.from + write.length);
  copy->keys = sources_->acquire(copy->bytes.data(), Bytes{write.length});
  write.from = copy->bytes.data();
  write.registration = {copy, copy->keys.get()};
}

std::shared_ptr<RemoteRead> Connection::start_read(std::uint64_t address, std::uint32_t key,
                                                   std::byte* to, Bytes size,
                                                   std::shared_ptr<const MemoryKeys> keys) {
  auto read = std::make_shared<RemoteRead>(queue_.peer(), size);
  if (lost_)
    read->failed = true;
  else if (size > Bytes{0})
    reads_.push_back({address, key, to, size.value(), std::move(keys), read});
  flush();
  return read;
}

void Connection::ask_for_keys(std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t last = mirror_->piece_of(offset + length - 1);
  for (std::uint64_t piece = mirror_->piece_of(offset); piece <= last; ++piece) {
    Key& key = keys_.at(piece);
    if (key.state != Key::State::unknown) continue;
    key.state = Key::State::asked;
    send({.kind = ControlMessage::Kind::ask, .piece = piece});
  }
}

void Connection::learn_key(std::uint64_t piece, std::uint32_t key) {
  if (piece < keys_.size()) keys_[piece] = {Key::State::known, key};
}

void Connection::release() {
  if (released_ == writes_.size()) return;
  writes_.back().wakes = true;
  released_ = writes_.size();
}

void Connection::flush() {
  if (!established_ || lost_) return;
  try {
    send_some();
  } catch (const SystemError& error) {
    lose(fmt::format("can no longer be sent to: {}", error.what()));
  }
}

void Connection::send_some() {
  std::size_t answered = 0;
  for (; answered < controls_.size() && queue_.room() > 0; ++answered) {
    const bool reported = controls_[answered].kind == ControlMessage::Kind::goodbye;
    queue_.add_short({.opcode = IBV_WR_SEND, .reported = reported}, &controls_[answered],
                     sizeof(ControlMessage));
  }
  while (next_ < released_ && queue_.room() > 0 && send_part(writes_[next_])) {
  }
  while (!reads_.empty() && queue_.room() > 0 && queue_.reads_in_flight() < most_reads)
    read_part(reads_.front());
  require_success(queue_.submit(), "ibv_post_send");
  controls_.erase(controls_.begin(), controls_.begin() + static_cast<std::ptrdiff_t>(answered));
  forget_sent();
}

/// Sends the part that lies in one piece. False while the key of that piece is missing.
bool Connection::send_part(Write& write) {
  const std::uint64_t piece = mirror_->piece_of(write.offset);
  if (keys_[piece].state != Key::State::known) return false;
  const std::uint64_t length =
      std::min<std::uint64_t>({write.length, mirror_->end_of(piece) - write.offset,
                               most_per_request, device_->port.max_msg_sz});
  const bool ends = length == write.length;
  const bool wakes = ends && write.wakes;
  const SendQueue::Target target{.opcode = wakes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                 .address = remote_ + write.offset,
                                 .key = keys_[piece].key,
                                 .reported = wakes && (write.from || queue_.owes_report())};
  const auto size = static_cast<std::uint32_t>(length);
  if (!write.from) {
    const std::byte* rest = write.copy.data() + write.copy.size() - write.length;
    queue_.add_short(target, rest, size);
  } else {
    const std::uint32_t key = write.registration
                                  ? static_cast<std::uint32_t>(write.registration->local)
                                  : own_->at(piece).lkey;
    queue_.add_long(target, write.from, size, key, write.registration);
    write.from += length;
  }
  write.offset += length;
  write.length -= length;
  if (ends) ++next_;
  return true;
}

void Connection::read_part(Read& read) {
  const std::uint64_t length = std::min(read.length, longest_read_);
  queue_.add_read(
      {.opcode = IBV_WR_RDMA_READ, .address = read.address, .key = read.key, .reported = true},
      read.to, static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(read.keys->local),
      read.keys, read.read);
  read.address += length;
  read.to += length;
  read.length -= length;
  if (read.length == 0) reads_.pop_front();
}

void Connection::forget_sent() {
  constexpr std::size_t many = 1024;
  if (next_ < writes_.size() && next_ < many) return;
  writes_.erase(writes_.begin(), writes_.begin() + static_cast<std::ptrdiff_t>(next_));
  released_ -= next_;
  next_ = 0;
}

void Connection::probe() {
  if (!established_ || lost_ || queue_.awaits_answer() || queue_.room() == 0) return;
  queue_.add_short({.opcode = IBV_WR_RDMA_WRITE, .reported = true}, nullptr, 0);
  queue_.submit();
}

void Connection::copy_sources() {
  for (std::size_t i = next_; i < writes_.size(); ++i)
    if (writes_[i].from) copy_source(writes_[i]);
}

void Connection::lose(const std::string& reason) {
  if (lost_) return;
  lost_ = peer_ + " " + reason;
  queue_.abandon();
  for (const Read& read : reads_) read.read->failed = true;
  reads_.clear();
  writes_.clear();
  controls_.clear();
  next_ = released_ = 0;
}

}  // namespace capstan::verbs
