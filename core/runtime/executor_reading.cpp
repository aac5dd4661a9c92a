// How the executor reads buffers of its peers where they are: by load what it sees, through the
// kernel what it does not.

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/error.hpp"
#include "core/runtime/executor.hpp"

namespace capstan {

/// False when a peer's buffer cannot be read (any more): whoever looks after the peers finds out
/// why.
bool Executor::gather_from_peers(const BoundOp& op) {
  if (op.count == 0) return true;
  const Peers::Reading reading{peers_};
  const std::uint64_t abandoned = times_abandoned(op);
  if (!locate_sources(op)) return false;
  const bool all = std::ranges::find(located_, nullptr) == located_.end();
  if (!all) return read_pieces(op) && were_kept(op, abandoned);
  sources_.assign(located_.begin(), located_.end());
  combine(op, &program_->operands[op.first_operand], 0, op.count);
  return were_kept(op, abandoned);
}

/// Finds out which sources can be loaded from; false when an owner has taken its buffers back. What
/// is found stays so while this rank is seen reading.
bool Executor::locate_sources(const BoundOp& op) {
  const BoundOperand* const sources = &program_->operands[op.first_operand + op.destination_count];
  const Bytes size = bytes_of(Elements{op.count}, plan_->element);
  located_.resize(op.source_count);
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    located_[i] = nullptr;
    if (!sources[i].in_peer_buffer()) {
      located_[i] = address(sources[i]);
      continue;
    }
    if (!peers_.stands(sources[i].owner())) return false;
    const PeerBuffer buffer = buffer_at_owner(sources[i]);
    located_[i] = transport_.shares_addresses()
                      ? reinterpret_cast<const std::byte*>(buffer.address)
                      : peers_.view(sources[i].owner(), buffer.allocation, buffer.address, size);
  }
  return true;
}

/// Sources that cannot be loaded from go through the cache in pieces; a copy goes straight to where
/// it is wanted.
bool Executor::read_pieces(const BoundOp& op) {
  // All pieces together stay in the cache.
  constexpr std::uint64_t most = 64 << 10, least = 4 << 10, all = 1 << 20;
  const std::uint64_t piece_bytes = std::clamp(all / op.source_count / least * least, least, most);
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const std::uint64_t element = plan_->element.value(), piece = piece_bytes / element;
  if (op.is_copy()) return fetch(destinations[1], 0, address(destinations[0]), op.count * element);

  sources_.resize(op.source_count);
  if (const std::size_t room = op.source_count * piece_bytes; fetched_.size() < room)
    fetched_.resize(room);
  for (std::uint64_t first = 0; first < op.count; first += piece) {
    const std::uint64_t count = std::min(piece, op.count - first);
    if (!copy_piece(op, first * element, count * element, piece_bytes)) return false;
    combine(op, destinations, first, count);
  }
  return true;
}

/// Points sources_ at a piece of each source, fetching those that cannot be loaded from.
bool Executor::copy_piece(const BoundOp& op, std::uint64_t at, std::uint64_t bytes,
                          std::size_t room) {
  const BoundOperand* const sources = &program_->operands[op.first_operand + op.destination_count];
  for (std::uint32_t k = 1; k <= op.source_count; ++k) {
    // Every rank begins with another peer: two that read the same one hinder each other.
    const std::uint32_t i = (static_cast<std::uint32_t>(self_) + k) % op.source_count;
    if (located_[i]) {
      sources_[i] = located_[i] + at;
      continue;
    }
    std::byte* const fetched = fetched_.data() + i * room;
    if (!peers_.stands(sources[i].owner()) || !fetch(sources[i], at, fetched, bytes)) return false;
    sources_[i] = fetched;
  }
  return true;
}

/// Reads until the owner has not moved the buffer meanwhile.
bool Executor::fetch(const BoundOperand& operand, std::uint64_t at, void* to, std::uint64_t bytes) {
  for (;;) {
    const std::uint64_t from = buffer_at_owner(operand).address;
    const bool read = transport_.read_remote(Rank{operand.owner()}, from + at, to, Bytes{bytes});
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read || !peers_.stands(operand.owner())) return false;
    if (buffer_at_owner(operand).address == from) return true;
  }
}

/// How often owners of the sources have stopped waiting for this rank while it read.
std::uint64_t Executor::times_abandoned(const BoundOp& op) const {
  const BoundOperand* const sources = &program_->operands[op.first_operand + op.destination_count];
  std::uint64_t times = 0;
  for (std::uint32_t i = 0; i < op.source_count; ++i)
    if (sources[i].in_peer_buffer())
      times += flag_of(peers_.segment(sources[i].owner()), layout_, self_)
                   .abandoned.load(std::memory_order_seq_cst);
  return times;
}

/// Whether owners have left what was loaded as it was. One that has taken its buffers back waits
/// for readers; not for ever, so that a rank that was stopped meanwhile has read who knows what.
bool Executor::were_kept(const BoundOp& op, std::uint64_t abandoned_before) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (times_abandoned(op) == abandoned_before) return true;
  const BoundOperand* const sources = &program_->operands[op.first_operand + op.destination_count];
  bool loaded = false;  // what was fetched has been looked after there
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    if (!sources[i].in_peer_buffer()) continue;
    if (!peers_.stands(sources[i].owner())) return false;
    loaded = loaded || located_[i];
  }
  if (!loaded) return true;
  throw Aborted(fmt::format(
      "rank {} was stopped for long while it read buffers of its peers, one of which has cancelled "
      "{} meanwhile: the result is lost; let ranks run, or do not cancel what others wait for",
      self_, to_string(plan_->call)));
}

/// Where an operand lies in its owner's memory.
PeerBuffer Executor::buffer_at_owner(const BoundOperand& operand) const {
  PeerBuffer buffer =
      operand.in_peer_input() ? log_.input_of(operand.owner()) : log_.output_of(operand.owner());
  buffer.address += block_ * bytes_of(plan_->block_count, plan_->element).value() + operand.offset;
  return buffer;
}

}  // namespace capstan
