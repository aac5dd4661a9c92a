// How the executor reads and writes buffers of its peers where they are: by load and store what it
// sees, through the kernel what it does not; and how it takes its own back from peers that do.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/executor/host_executor.hpp"

namespace capstan {
namespace {

BoundOp kept_in_cache(BoundOp op) {
  op.streams = false;
  return op;
}

}  // namespace

/// False when a peer's buffer cannot be used (any more, or just now): whoever looks after the peers
/// finds out why.
bool Executor::gather_at_peers(const BoundOp& op) {
  if (op.count == 0) return true;
  const Peers::InTheirBuffers here{peers_};
  const std::uint64_t abandoned = times_abandoned(op);
  if (!locate(op)) return false;
  if (std::ranges::find(located_, nullptr) != located_.end())
    return gather_pieces(op) && were_kept(op, abandoned);
  std::copy(located_.begin() + op.destination_count, located_.end(), sources_.begin());
  if (op.spreads)
    spread(op);
  else
    combine(op, located_[0], op.destination_count == 2 ? located_[1] : nullptr, op.count);
  return were_kept(op, abandoned);
}

/// To all that is seen: past the cache at once, each source being read once and nothing twice;
/// otherwise out of the own output, as copies take lines that peers have several times as fast.
void Executor::spread(const BoundOp& op) {
  further_.assign(located_.begin() + 1, located_.begin() + op.destination_count);
  if (op.streams)
    return reduce(op, {.destination = located_[0],
                       .sources = sources_.data(),
                       .source_count = op.source_count,
                       .element_count = op.count,
                       .stream_destination = true,
                       .further = further_.data(),
                       .further_count = further_.size()});
  combine(op, located_[0], nullptr, op.count);
  for (void* const place : further_)
    kernels::copy(place, located_[0], op.count * plan_->element.value(), false);
}

/// Finds out where operands are, and which can be used as they are; false when an owner is in
/// another call, or has taken its buffers back, or moves them. What is found stays so while this
/// rank is seen in buffers of its peers.
bool Executor::locate(const BoundOp& op) {
  const auto operands = operands_of(op);
  const Bytes size = bytes_of(Elements{op.count}, plan_->element);
  located_.assign(operands.size(), nullptr);
  at_owner_.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const BoundOperand& operand = operands[i];
    if (!operand.in_peer_buffer()) {
      located_[i] = address(operand);
      continue;
    }
    const PeerBuffer& buffer = at_owner_[i] = buffer_at_owner(operand);
    if (!log_.agrees(operand.owner) || !peers_.stands(operand.owner) || buffer.moves())
      return false;
    located_[i] = transport_.shares_addresses()
                      ? reinterpret_cast<std::byte*>(buffer.address)
                      : peers_.view(operand.owner, buffer.allocation, buffer.address, size);
  }
  return true;
}

/// What is not seen goes through the cache in pieces; a copy goes straight to where it is wanted,
/// unless that is past the cache, which the kernel does not spare.
bool Executor::gather_pieces(const BoundOp& op) {
  const auto operands = operands_of(op);
  const std::uint64_t room = fetched_piece(op.source_count + 1).value();
  const std::uint64_t element = plan_->element.value(), piece = room / element;
  if (op.is_copy() && located_[0] && !op.streams)
    return fetch(op, 1, 0, located_[0], op.count * element);
  if (op.is_copy() && located_[1]) return store(op, 0, 0, located_[1], op.count * element);

  if (pieces_.size() < operands.size() * room) pieces_.resize(operands.size() * room);
  for (std::uint64_t first = 0; first < op.count; first += piece) {
    const std::uint64_t count = std::min(piece, op.count - first), at = first * element;
    if (!fetch_pieces(op, at, count * element, room)) return false;
    std::byte* const to = located_[0] ? located_[0] + at : pieces_.data();
    if (op.spreads)
      combine(kept_in_cache(op), to, nullptr, count);
    else
      combine(op, to, op.destination_count == 2 ? located_[1] + at : nullptr, count);
    if (!located_[0] && !store(op, 0, at, to, count * element)) return false;
  }
  return !op.spreads || hand_on(op);
}

/// The result, to the peers that get it too: out of the own output, while that is in the cache.
bool Executor::hand_on(const BoundOp& op) {
  const std::uint64_t bytes = op.count * plan_->element.value();
  for (std::size_t i = 1; i < op.destination_count; ++i) {
    if (located_[i])
      kernels::copy(located_[i], located_[0], bytes, op.streams);
    else if (!store(op, i, 0, located_[0], bytes))
      return false;
  }
  return true;
}

/// Points sources_ at a piece of each source, fetching those that cannot be loaded from.
bool Executor::fetch_pieces(const BoundOp& op, std::uint64_t at, std::uint64_t bytes,
                            std::size_t room) {
  for (std::uint32_t k = 1; k <= op.source_count; ++k) {
    // Every rank begins with another peer: two that read the same one hinder each other.
    const std::uint32_t i = (static_cast<std::uint32_t>(self_) + k) % op.source_count;
    const std::size_t operand = op.destination_count + i;
    if (located_[operand]) {
      sources_[i] = located_[operand] + at;
      continue;
    }
    std::byte* const fetched = pieces_.data() + operand * room;
    if (!fetch(op, operand, at, fetched, bytes)) return false;
    sources_[i] = fetched;
  }
  return true;
}

/// Reads a piece of operand `which` until its owner has not moved it meanwhile. One that is about
/// to move it waits for this rank.
bool Executor::fetch(const BoundOp& op, std::size_t which, std::uint64_t at, void* to,
                     std::uint64_t bytes) {
  const BoundOperand& operand = operands_of(op)[which];
  PeerBuffer& from = at_owner_[which];
  while (peers_.stands(operand.owner)) {
    const bool read =
        transport_.read_remote(Rank{operand.owner}, from.address + at, to, Bytes{bytes});
    std::atomic_thread_fence(std::memory_order_acquire);
    const PeerBuffer now = buffer_at_owner(operand);
    if (now.moves() || now.address == from.address) return read && peers_.stands(operand.owner);
    from = now;
  }
  return false;
}

/// Writes a piece of destination `which`. Its owner does not move it before: see hold_buffers().
bool Executor::store(const BoundOp& op, std::size_t which, std::uint64_t at, const void* from,
                     std::uint64_t bytes) {
  const Rank owner{operands_of(op)[which].owner};
  return peers_.stands(owner.value()) &&
         transport_.write_remote(owner, at_owner_[which].address + at, from, Bytes{bytes});
}

/// Who finds no address waits for one.
bool Executor::hold_buffers() {
  if (!plan_ || plan_->protocol != Protocol::write_output) return true;
  log_.move_buffers(nullptr, nullptr);
  if (peers_.wait_for_users().empty()) return true;
  log_.move_buffers(input_, output_);
  peers_.wake_all();
  return false;
}

void Executor::redirect(const void* input, void* output) {
  if (kept_.empty()) input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  log_.move_buffers(input_, output_);
  // Where peers write, they are in the new ones only: see hold_buffers().
  if (plan_->protocol != Protocol::write_output) wait_for_users();
  forget_sources();
  peers_.wake_all();
  if (has_block_) place_buffers();
}

void Executor::withdraw_buffers() {
  wait_for_users();
  forget_sources();
}

void Executor::forget_sources() {
  if (plan_) peers_.detach_sources();
  transport_.announce_sources({}, {});
}

void Executor::wait_for_users() {
  if (!plan_ || !reads_buffers(plan_->protocol)) return;
  for (const int peer : peers_.wait_for_users())
    flag_of(segment_, layout_, peer).abandoned.fetch_add(1, std::memory_order_seq_cst);
}

/// How often owners of the operands have stopped waiting for this rank while it used them.
std::uint64_t Executor::times_abandoned(const BoundOp& op) const {
  std::uint64_t times = 0;
  for (const BoundOperand& operand : operands_of(op))
    if (operand.in_peer_buffer())
      times += flag_of(peers_.segment(operand.owner), layout_, self_)
                   .abandoned.load(std::memory_order_seq_cst);
  return times;
}

/// Whether owners have left what was loaded as it was, and what was stored where it is looked for.
/// One that takes its buffers back waits for those who use them; not for ever, so that a rank that
/// was stopped meanwhile has read and written who knows what.
bool Executor::were_kept(const BoundOp& op, std::uint64_t abandoned_before) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (times_abandoned(op) == abandoned_before) return true;
  const auto operands = operands_of(op);
  bool used = false;  // what was fetched has been looked after there
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].in_peer_buffer()) continue;
    if (!peers_.stands(operands[i].owner)) return false;
    used = used || located_[i] || i < op.destination_count;
  }
  if (!used) return true;
  throw Aborted(fmt::format(
      "rank {} was stopped for long while it used buffers of its peers, one of which has cancelled "
      "{} meanwhile: the result is lost; let ranks run, or do not cancel what others wait for",
      self_, to_string(plan_->call)));
}

std::span<const BoundOperand> Executor::operands_of(const BoundOp& op) const {
  return std::span{program_->operands}.subspan(op.first_operand,
                                               op.destination_count + op.source_count);
}

/// Where an operand lies in its owner's memory.
PeerBuffer Executor::buffer_at_owner(const BoundOperand& operand) const {
  PeerBuffer buffer = operand.place == Place::peer_input ? log_.input_of(operand.owner)
                                                         : log_.output_of(operand.owner);
  if (buffer.moves()) return buffer;
  buffer.address += block_ * bytes_of(plan_->block_count, plan_->element).value() + operand.offset;
  return buffer;
}

}  // namespace capstan
