// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/peer_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {
namespace {

HostOp without_streaming(HostOp op) {
  op.streams = false;
  return op;
}

}  // namespace

bool PeerMemory::gather(RunningCall& call, const HostOp& op) {
  if (op.count == 0) return true;
  const Peers::UsingPeerBuffers using_them{peers_};
  const std::uint64_t abandoned = times_abandoned(call, op);
  if (!locate(call, op)) return false;
  if (std::ranges::find(mapped_, nullptr) != mapped_.end())
    return gather_in_pieces(call, op) && buffers_still_valid(call, op, abandoned);
  std::copy(mapped_.begin() + op.destination_count, mapped_.end(), call.sources.begin());
  if (op.writes_peers_too)
    gather_to_all(call, op);
  else
    combine(call, op, mapped_[0], op.destination_count == 2 ? mapped_[1] : nullptr, op.count);
  return buffers_still_valid(call, op, abandoned);
}

/// Finds the addresses of the operands. False when an owner is in another call, has taken its
/// buffers back, or moves them. The addresses stay valid as long as this rank is UsingPeerBuffers.
bool PeerMemory::locate(const RunningCall& call, const HostOp& op) {
  const auto operands = call.operands_of(op);
  const Bytes size = bytes_of(Elements{op.count}, call.plan->element);
  mapped_.assign(operands.size(), nullptr);
  at_owner_.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const BoundOperand& operand = operands[i];
    if (!operand.in_peer_buffer()) {
      mapped_[i] = call.address(operand);
      continue;
    }
    const Rank owner = operand.owner;
    const PeerBuffer& buffer = at_owner_[i] = buffer_of(call, operand);
    if (!log_.agrees(owner) || !peers_.buffers_valid(owner) || buffer.moves()) return false;
    mapped_[i] = transport_.shares_addresses()
                     ? reinterpret_cast<std::byte*>(buffer.address)
                     : peers_.view(owner, buffer.allocation, buffer.address, size);
  }
  return true;
}

void PeerMemory::combine(const RunningCall& call, const HostOp& op, std::byte* to,
                         std::byte* second, std::uint64_t count) {
  combiner_.combine(call, op, to, second, count, op.is_for_peers && to != pieces_.get());
}

/// Writes a result to several destinations, all of which are mapped. A streamed result is written
/// to all of them at once, and each source is read once. Any other result is copied from this
/// rank's output: a copy gains ownership of cache lines that peers hold several times as fast as a
/// reduction.
void PeerMemory::gather_to_all(const RunningCall& call, const HostOp& op) {
  further_.assign(mapped_.begin() + 1, mapped_.begin() + op.destination_count);
  if (op.streams)
    return Combiner::reduce(call, op,
                            {.destination = mapped_[0],
                             .sources = call.sources.data(),
                             .source_count = op.source_count,
                             .element_count = op.count,
                             .stream_destination = true,
                             .further = further_.data(),
                             .further_count = further_.size()});
  combine(call, op, mapped_[0], nullptr, op.count);
  for (void* const place : further_)
    kernels::copy(place, mapped_[0], op.count * call.plan->element.value(), false);
}

/// Moves operands that are not mapped through the cache in pieces. A copy is read or written as a
/// whole, unless it has to be streamed: the kernel's copies do not stream.
bool PeerMemory::gather_in_pieces(RunningCall& call, const HostOp& op) {
  const auto operands = call.operands_of(op);
  const std::uint64_t room = fetched_piece(op.source_count + 1).value();
  const std::uint64_t element = call.plan->element.value(), piece = room / element;
  if (op.is_copy() && mapped_[0] && !op.streams)
    return fetch(call, op, 1, 0, mapped_[0], op.count * element);
  if (op.is_copy() && mapped_[1]) return store(call, op, 0, 0, mapped_[1], op.count * element);

  make_room(operands.size() * room);
  for (std::uint64_t first = 0; first < op.count; first += piece) {
    const std::uint64_t count = std::min(piece, op.count - first), at = first * element;
    if (!fetch_pieces(call, op, at, count * element, room)) return false;
    std::byte* const to = mapped_[0] ? mapped_[0] + at : pieces_.get();
    if (op.writes_peers_too)
      combine(call, without_streaming(op), to, nullptr, count);
    else
      combine(call, op, to, op.destination_count == 2 ? mapped_[1] + at : nullptr, count);
    if (!mapped_[0] && !store(call, op, 0, at, to, count * element)) return false;
  }
  return !op.writes_peers_too || forward_result(call, op);
}

void PeerMemory::make_room(std::uint64_t bytes) {
  if (bytes <= pieces_size_) return;
  pieces_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  pieces_size_ = bytes;
}

/// Copies the result from this rank's output, which is in the cache, to the other destinations.
bool PeerMemory::forward_result(const RunningCall& call, const HostOp& op) {
  const std::uint64_t bytes = op.count * call.plan->element.value();
  for (std::size_t i = 1; i < op.destination_count; ++i) {
    if (mapped_[i])
      kernels::copy(mapped_[i], mapped_[0], bytes, op.streams);
    else if (!store(call, op, i, 0, mapped_[0], bytes))
      return false;
  }
  return true;
}

/// Points the call's sources at one piece of each, and fetches those that are not mapped.
bool PeerMemory::fetch_pieces(RunningCall& call, const HostOp& op, std::uint64_t at,
                              std::uint64_t bytes, std::size_t room) {
  for (std::uint32_t k = 1; k <= op.source_count; ++k) {
    // Each rank starts with another peer: two ranks that read from the same peer slow each other.
    const std::uint32_t i =
        (static_cast<std::uint32_t>(peers_.self().value()) + k) % op.source_count;
    const std::size_t operand = op.destination_count + i;
    if (mapped_[operand]) {
      call.sources[i] = mapped_[operand] + at;
      continue;
    }
    std::byte* const fetched = pieces_.get() + operand * room;
    if (!fetch(call, op, operand, at, fetched, bytes)) return false;
    call.sources[i] = fetched;
  }
  return true;
}

/// Reads a piece of operand `which`, and reads it again if the owner has moved its buffer
/// meanwhile. The bytes are valid if the owner is only about to move the buffer: the owner waits
/// for this rank before the move.
bool PeerMemory::fetch(const RunningCall& call, const HostOp& op, std::size_t which,
                       std::uint64_t at, void* to, std::uint64_t bytes) {
  const BoundOperand& operand = call.operands_of(op)[which];
  const Rank owner = operand.owner;
  PeerBuffer& from = at_owner_[which];
  while (peers_.buffers_valid(owner)) {
    errno = 0;
    const bool read = transport_.read_remote(owner, from.address + at, to, Bytes{bytes});
    if (!read) require_right(owner, "process_vm_readv", errno);
    std::atomic_thread_fence(std::memory_order_acquire);
    const PeerBuffer now = buffer_of(call, operand);
    if (now.moves() || now.address == from.address) return read && peers_.buffers_valid(owner);
    from = now;
  }
  return false;
}

/// Writes a piece of destination `which`. The owner does not move its buffer before this rank is
/// done: see ExposedBuffers::hold().
bool PeerMemory::store(const RunningCall& call, const HostOp& op, std::size_t which,
                       std::uint64_t at, const void* from, std::uint64_t bytes) {
  const Rank owner = call.operands_of(op)[which].owner;
  if (!peers_.buffers_valid(owner)) return false;
  errno = 0;
  if (transport_.write_remote(owner, at_owner_[which].address + at, from, Bytes{bytes}))
    return true;
  require_right(owner, "process_vm_writev", errno);
  return false;
}

/// A copy worked when the ranks met. The right to it can be lost later: no peer has to be waited
/// for then. Throws SystemError.
void PeerMemory::require_right(Rank owner, const char* call, int error) const {
  const bool refused = error == EPERM || error == EACCES || error == ENOSYS;
  if (!refused || transport_.departed(owner)) return;
  throw SystemError(fmt::format(
      "rank {}: copy between its memory and that of rank {}: {} failed: {}: a sandbox, setuid or "
      "PR_SET_DUMPABLE has taken this right from one of them since they met: leave it to them, or "
      "set CAPSTAN_SINGLE_COPY=0 for all ranks",
      peers_.self().value(), owner.value(), call, std::strerror(error)));
}

/// The current block's part of an operand in its owner's memory.
PeerBuffer PeerMemory::buffer_of(const RunningCall& call, const BoundOperand& operand) const {
  const Rank owner = operand.owner;
  PeerBuffer buffer =
      operand.place == Place::peer_input ? log_.input_of(owner) : log_.output_of(owner);
  if (buffer.moves()) return buffer;
  buffer.address += call.block_offset() + operand.offset;
  return buffer;
}

/// How often owners of the operands have stopped waiting for this rank while it used their buffers.
std::uint64_t PeerMemory::times_abandoned(const RunningCall& call, const HostOp& op) const {
  std::uint64_t times = 0;
  for (const BoundOperand& operand : call.operands_of(op))
    if (operand.in_peer_buffer())
      times += flag_of(peers_.segment(operand.owner), layout_, peers_.self())
                   .abandoned.load(std::memory_order_seq_cst);
  return times;
}

/// Whether the peers' buffers were valid during the whole operation. An owner that takes its
/// buffers back waits for the ranks that use them, but not for ever. A rank that was stopped for
/// longer may have read or overwritten other data: throws Aborted then.
bool PeerMemory::buffers_still_valid(const RunningCall& call, const HostOp& op,
                                     std::uint64_t abandoned_before) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (times_abandoned(call, op) == abandoned_before) return true;
  const auto operands = call.operands_of(op);
  bool used = false;  // by load, store or write_remote; fetch() checks for itself
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].in_peer_buffer()) continue;
    if (!peers_.buffers_valid(operands[i].owner)) return false;
    used = used || mapped_[i] || i < op.destination_count;
  }
  if (!used) return true;
  throw Aborted(fmt::format(
      "rank {} was stopped for long while it used buffers of its peers, one of which has cancelled "
      "{} meanwhile: the result is lost; let ranks run, or do not cancel what others wait for",
      peers_.self().value(), to_string(call.plan->call)));
}

}  // namespace capstan
