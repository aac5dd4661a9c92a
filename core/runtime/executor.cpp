#include "core/runtime/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

/// Lets the other hyperthread of this core have the pipeline for a moment.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at a condition for a short while: long enough for a peer that runs at the same time,
/// short enough not to keep the core from one that shares it.
template <class Condition>
bool soon(int spins, Condition condition) {
  constexpr int eager = 128;
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    if (i > eager) relax();
  }
  return false;
}

}  // namespace

Executor::Executor(Peers& peers, const SegmentLayout& layout, int spins)
    : peers_(peers),
      transport_(peers.transport()),
      layout_(layout),
      self_(peers.self()),
      spins_(spins),
      segment_(peers.own_segment()),
      log_(peers) {
  const auto size = static_cast<std::size_t>(peers.count());
  sent_.resize(size);
  received_.resize(size);
  heard_.resize(size);
  known_finished_.resize(size);
  read_.resize(size);
  told_.resize(size);
  for (const SlotKind kind : all_slot_kinds)
    for (int i = 0; i < SegmentLayout::slots(kind); ++i)
      slots_[static_cast<std::size_t>(kind)].push_back(
          {.offset = layout_.slot(kind, static_cast<std::uint64_t>(i)).value()});
  bases_.resize(BoundOperand::bases(peers.count()));
}

/// What has just been stored is not loaded again here, above all not two words as one: that would
/// wait until all stores before it have taken their lines from peers.
void Executor::start(const Plan& plan, const void* input, void* output) {
  plan_ = &plan;
  auto* const to = static_cast<std::byte*>(output);
  const std::byte* const from = kept(static_cast<const std::byte*>(input), to);
  input_ = from;
  output_ = to;
  if (scratch_.size() < plan.scratch.value()) scratch_.resize(plan.scratch.value());
  announce_sources();
  round_ = 0;
  phase_ = 0;
  packet_index_ = 0;
  log_.begin(plan.mark, plan.digest, announced(from, to));
  tag_ = packet_tag(log_.call(), static_cast<std::uint32_t>(plan.digest));
  if (plan.blocks > 1) tell_writers();  // slots come round within the call
  enter_phase();
}

/// With the allocations that they are in, if peers are going to read them.
AnnouncedBuffers Executor::announced(const std::byte* input, std::byte* output) const {
  AnnouncedBuffers buffers{.input = input, .output = output};
  if (!reads_buffers(plan_->form)) return buffers;
  buffers.input_allocation = peers_.allocation_of(input, plan_->input_bytes);
  buffers.output_allocation = peers_.allocation_of(output, plan_->output_bytes);
  return buffers;
}

void Executor::announce_sources() {
  if (plan_->pushed_to.empty()) return;
  transport_.announce_sources({input_, plan_->input_bytes.value()},
                              {output_, plan_->output_bytes.value()});
}

/// The input, or a copy: in place, what this rank receives may overwrite what peers have yet to
/// read.
const std::byte* Executor::kept(const std::byte* input, const std::byte* output) {
  kept_.clear();
  if (!reads_buffers(plan_->form) || !overwrites_input(plan_->call.collective)) return input;
  const std::size_t length = plan_->input_bytes.value();
  if (length == 0 || output >= input + length || input >= output + plan_->output_bytes.value())
    return input;
  kept_.assign(input, input + length);
  return kept_.data();
}

bool Executor::advance() {
  if (!plan_) return true;
  while (round_ < rounds()) {
    if (!run_phase()) return false;
    leave_phase();
    if (++phase_ == static_cast<int>(phases())) phase_ = 0, ++round_;
    if (round_ < rounds()) enter_phase();
  }
  if (!flush_buffers()) return false;
  finish();
  return true;
}

/// Round t runs phase k of block t-k, for each k: a block's first phase overlaps the waits of those
/// before it.
bool Executor::has_block() const {
  const auto phase = static_cast<std::uint64_t>(phase_);
  return round_ >= phase && round_ - phase < plan_->blocks;
}

void Executor::enter_phase() {
  if (!has_block()) return;
  block_ = round_ - static_cast<std::uint64_t>(phase_);
  program_ = &plan_->program(block_);
  op_ = phase_ == 0 ? 0 : program_->phase_end[static_cast<std::size_t>(phase_) - 1];
  acquired_ = phase_ > 0;
  place_block();
}

/// Points the bases of all operands at this block's part of the buffers and at its slots.
void Executor::place_block() {
  const std::uint64_t shift = block_ * bytes_of(plan_->block_count, plan_->element).value();
  bases_[0] = const_cast<std::byte*>(input_) + shift;  // programs never write to the input
  bases_[1] = output_ + shift;
  bases_[2] = scratch_.data();
  const std::uint64_t at = slot(slot_number()).offset;
  next_slot_ = 0;
  if (in_packets(plan_->form) && !plan_->guarantees.synchronizes)
    next_slot_ = static_cast<std::ptrdiff_t>(slot(slot_number() + 1).offset - at);
  for (int rank = 0; rank < peers_.count(); ++rank)
    bases_[BoundOperand::board_of(rank)] =
        const_cast<std::byte*>(peers_.segment(rank)) + at;  // only the own one is written
  bases_[BoundOperand::board_of(self_)] = segment_ + at;
}

std::uint64_t Executor::slot_number() const {
  return used_[static_cast<std::size_t>(plan_->slots)] + block_;
}

Executor::Slot& Executor::slot(std::uint64_t number) {
  return slots_[static_cast<std::size_t>(plan_->slots)][SegmentLayout::turn(plan_->slots, number)];
}

/// A slot comes round: its last readers must be done with it. After calls that synchronize that is
/// known without looking (see finish); within a paced one the order of its steps sees to it.
bool Executor::acquire_slot() {
  if (program_->readers.empty()) return acquired_ = true;  // nothing is written to it
  Slot& slot = this->slot(slot_number());
  const bool own_stream = plan_->guarantees.paced && slot.user > first_block_;
  for (const int reader : slot.readers)
    if (!own_stream && !has_finished(reader, slot.user)) return false;
  slot.user = first_block_ + block_ + 1;
  if (slot.readers != program_->readers) slot.readers = program_->readers;
  return acquired_ = true;
}

/// Looks for what is to come from a peer. What comes from other hosts has to be taken in.
template <class Condition>
bool Executor::comes(int peer, Condition condition) {
  if (peers_.posted().empty()) return soon(spins_, condition);
  constexpr int now_and_then = 64, most_from_afar = 100;
  const bool mapped = peers_.mapped(peer);
  const int spins = mapped ? spins_ : std::min(spins_, most_from_afar);
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    if (!mapped || i % now_and_then == 0)
      transport_.progress();
    else
      relax();
  }
  return false;
}

bool Executor::has_finished(int peer, std::uint64_t blocks) {
  std::uint64_t& known = known_finished_[static_cast<std::size_t>(peer)];
  if (known >= blocks) return true;
  const Control& theirs = peers_.control(peer);
  const auto look = [&] {
    return (known = theirs.finished.load(std::memory_order_acquire)) >= blocks;
  };
  if (!look() && !comes(peer, look)) return false;
  log_.compare(peer, std::min(theirs.finished_calls.load(std::memory_order_relaxed), log_.call()));
  return true;
}

/// From the last phase on that reads boards, nothing of the block is read here any more.
void Executor::leave_phase() {
  if (has_block() && phase_ == plan_->last_reading_phase && !plan_->guarantees.paced &&
      block_ + 1 < plan_->blocks) {
    publish_finished(first_block_ + block_ + 1);
    note_read(first_block_ + block_ + 1);
    tell_writers();
  }
}

void Executor::publish_finished(std::uint64_t blocks) {
  peers_.own_control().finished.store(blocks, std::memory_order_release);
  for (int peer = 0; peer < peers_.count(); ++peer)
    if (peer != self_ && peers_.mapped(peer)) peers_.wake(peer);
}

/// Boards of peers on other hosts have been read up to here.
void Executor::note_read(std::uint64_t blocks) {
  for (const int peer : plan_->remote_writers) read_[static_cast<std::size_t>(peer)] = blocks;
}

/// Those whose boards have been read need to know before they write to the slots again.
void Executor::tell_writers() {
  const Control& own = peers_.own_control();
  for (const int peer : peers_.posted()) {
    std::uint64_t& told = told_[static_cast<std::size_t>(peer)];
    if (told >= read_[static_cast<std::size_t>(peer)]) continue;
    told = own.finished.load(std::memory_order_relaxed);
    peers_.show(peer, &own.finished, 2 * sizeof own.finished);
    peers_.wake(peer);
  }
}

/// Whether those on other hosts are told now of what has been finished. Slots of single blocks come
/// round only after calls that tell, or synchronize themselves; of each small kind there are more
/// than calls of all kinds that do not tell.
bool Executor::tells_writers() {
  constexpr int rarely = SegmentLayout::slots(SlotKind::small_board) / 2;
  if (plan_->blocks > 1) return true;
  if (plan_->guarantees.synchronizes) return false;
  if (SegmentLayout::is_small(plan_->slots) && ++untold_ < rarely) return false;
  untold_ = 0;
  return true;
}

bool Executor::run_phase() {
  if (!has_block()) return true;
  if (!acquired_ && !acquire_slot()) return false;
  const std::uint32_t end = program_->phase_end[static_cast<std::size_t>(phase_)];
  for (; op_ < end; ++op_, ++progress_)
    if (!execute(program_->ops[op_])) return false;
  return true;
}

bool Executor::execute(const BoundOp& op) {
  switch (op.code) {
    case OpCode::gather:
      if (in_packets(plan_->form)) return gather_packets(op);
      return op.reaches_peers ? gather_at_peers(op) : gather(op);
    case OpCode::push:
      return push(op);
    case OpCode::flush:
      return flush(op.peer);
    case OpCode::signal:
      signal(op.peer);
      return true;
    case OpCode::wait:
      return wait(op.peer);
    case OpCode::notify:
      peers_.wake(op.peer);
      return true;
  }
  return true;
}

/// To where the peer, on another host, sees the own board.
bool Executor::push(const BoundOp& op) {
  const BoundOperand& seen = program_->operands[op.first_operand];
  const BoundOperand& source = (&seen)[op.destination_count];
  const std::uint64_t count = in_packets(plan_->form)
                                  ? packets_for(Elements{op.count}, plan_->element) * sizeof(Packet)
                                  : op.count * plan_->element.value();
  const Bytes offset{static_cast<std::uint64_t>(address(seen) - segment_)};
  if (source.base == seen.base)
    transport_.push(Rank{op.peer}, offset, Bytes{count});
  else
    transport_.push_from(Rank{op.peer}, offset, address(source), Bytes{count});
  return true;
}

/// Nearly always what has been pushed has gone by now.
bool Executor::flush(int peer) {
  if (transport_.pushed(Rank{peer})) return true;
  peers_.wake(peer);
  transport_.progress();
  return transport_.pushed(Rank{peer});
}

/// The caller may change its buffers when the call ends, and may not be back for a long time.
bool Executor::flush_buffers() {
  return std::ranges::all_of(plan_->pushed_to, [&](int peer) { return flush(peer); });
}

bool Executor::gather_packets(const BoundOp& op) {
  const std::uint64_t per_packet = elements_per_packet(plan_->element);
  for (std::uint64_t done = packet_index_ * per_packet; done < op.count; done += per_packet) {
    if (!gather_packet(op, std::min(per_packet, op.count - done))) return false;
    ++packet_index_;
  }
  packet_index_ = 0;
  return true;
}

/// One packet's worth of a gather: waits for it on peers' boards, sends it on the own one.
bool Executor::gather_packet(const BoundOp& op, std::uint64_t count) {
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  sources_.resize(op.source_count);
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    sources_[i] = packet_address(sources[i]);
    if (!sources[i].on_board()) continue;
    const auto* packet = static_cast<const Packet*>(sources_[i]);
    if (!packet->arrived(tag_) && !comes(sources[i].owner(), [&] { return packet->arrived(tag_); }))
      return false;
    // A sender that waits for nobody is probably ahead already.
    if (next_slot_ != 0)
      __builtin_prefetch(static_cast<const std::byte*>(sources_[i]) + next_slot_);
  }

  std::byte* const first = packet_address(destinations[0]);
  std::byte* const second = op.destination_count == 2 ? packet_address(destinations[1]) : nullptr;
  if (op.source_count == 1 && op.divisor == 1 && !second)
    std::memcpy(first, sources_[0], count * plan_->element.value());
  else
    plan_->reduce({.destination = first,
                   .second_destination = second,
                   .sources = sources_.data(),
                   .source_count = op.source_count,
                   .element_count = count,
                   .divisor = op.divisor,
                   .context = &plan_->user});
  if (destinations[0].on_board()) reinterpret_cast<Packet*>(first)->publish(tag_);
  if (second) reinterpret_cast<Packet*>(second)->publish(tag_);
  return true;
}

std::byte* Executor::address(const BoundOperand& operand) const {
  return bases_[operand.base] + operand.offset;
}

std::byte* Executor::packet_address(const BoundOperand& operand) const {
  return address(operand) +
         packet_index_ * (operand.on_board()
                              ? sizeof(Packet)
                              : elements_per_packet(plan_->element) * plan_->element.value());
}

void Executor::signal(int peer) {
  Flag& flag = flag_of(segment_, layout_, peer);
  flag.histories[log_.call() % Flag::kept].store(log_.history(), std::memory_order_relaxed);
  flag.signals.store(++sent_[static_cast<std::size_t>(peer)], std::memory_order_release);
  if (!peers_.mapped(peer)) {
    log_.show(peer);
    peers_.show(peer, flag.signals);
  }
  peers_.wake(peer);
}

bool Executor::wait(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  const std::uint64_t next = received_[p] + 1;
  if (heard_[p].signals < next && !hear(peer, next)) return false;
  received_[p] = next;
  log_.compare(peer, heard_[p].histories);
  return true;
}

/// Waits a little for so many signals, and keeps what else stands in their line: it is expensive to
/// come by while the peer goes on writing to it.
bool Executor::hear(int peer, std::uint64_t signals) {
  Heard& heard = heard_[static_cast<std::size_t>(peer)];
  const Flag& flag = flag_of(peers_.segment(peer), layout_, self_);
  const auto come = [&] {
    return (heard.signals = flag.signals.load(std::memory_order_acquire)) >= signals;
  };
  if (!comes(peer, come)) return false;
  for (std::size_t i = 0; i < Flag::kept; ++i)
    heard.histories[i] = flag.histories[i].load(std::memory_order_relaxed);
  return true;
}

void Executor::finish() {
  peers_.own_control().finished_calls.store(log_.call(), std::memory_order_relaxed);
  used_[static_cast<std::size_t>(plan_->slots)] += plan_->blocks;
  // All peers have entered this call, and so have finished what came before it.
  if (plan_->guarantees.synchronizes) std::ranges::fill(known_finished_, first_block_);
  first_block_ += plan_->blocks;
  publish_finished(first_block_);
  note_read(first_block_);
  if (tells_writers()) tell_writers();
  plan_ = nullptr;
  ++progress_;
}

}  // namespace capstan
