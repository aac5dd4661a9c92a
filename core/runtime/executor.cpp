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

Executor::Executor(Transport& transport, const SegmentLayout& layout, Rank self, int ranks,
                   int spins)
    : transport_(transport),
      layout_(layout),
      self_(self.value()),
      spins_(spins),
      segment_(transport.segment().data()) {
  const auto size = static_cast<std::size_t>(ranks);
  for (int rank = 0; rank < ranks; ++rank) links_.push_back(&transport.link(Rank{rank}));
  sent_.resize(size);
  received_.resize(size);
  checked_.resize(size);
  bases_.resize(BoundOperand::first_board + size);
}

void Executor::start(const Plan& plan, const void* input, void* output) {
  plan_ = &plan;
  input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  if (scratch_.size() < plan.scratch.value()) scratch_.resize(plan.scratch.value());
  round_ = 0;
  phase_ = 0;
  packet_index_ = 0;
  ++call_;
  tag_ = packet_tag(packet_messages_, plan.mark.digest());
  record_call();
  enter_phase();
}

bool Executor::advance() {
  if (!plan_) return true;
  const std::uint64_t rounds = plan_->blocks + plan_->block.phase_end.size() - 1;
  while (round_ < rounds) {
    if (!run_phase()) return false;
    if (++phase_ == static_cast<int>(plan_->block.phase_end.size())) phase_ = 0, ++round_;
    if (round_ < rounds) enter_phase();
  }
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
  place_block();
}

/// Points the bases of all operands at this block's part of the buffers and at its slots.
void Executor::place_block() {
  const std::uint64_t shift = block_ * bytes_of(plan_->block_count, plan_->element).value();
  bases_[0] = const_cast<std::byte*>(input_) + shift;  // programs never write to the input
  bases_[1] = output_ + shift;
  bases_[2] = scratch_.data();
  const std::uint64_t slot = plan_->form == Form::packets ? packet_slot() : board_slot();
  for (std::size_t rank = 0; rank < links_.size(); ++rank)
    bases_[BoundOperand::first_board + rank] =
        const_cast<std::byte*>(links_[rank]->segment) + slot;  // only the own one is written
  bases_[BoundOperand::first_board + static_cast<std::size_t>(self_)] = segment_ + slot;
}

std::uint64_t Executor::packet_slot() const {
  return (layout_.packets() +
          SegmentLayout::packet_slot * (packet_messages_ % SegmentLayout::packet_slots))
      .value();
}

std::uint64_t Executor::board_slot() const {
  const std::uint64_t slot = (board_blocks_ + block_) % SegmentLayout::board_slots;
  return (layout_.boards() + layout_.board_slot() * slot).value();
}

bool Executor::run_phase() {
  if (!has_block()) return true;
  const std::uint32_t end = program_->phase_end[static_cast<std::size_t>(phase_)];
  for (; op_ < end; ++op_, ++progress_)
    if (!execute(program_->ops[op_])) return false;
  return true;
}

bool Executor::execute(const BoundOp& op) {
  switch (op.code) {
    case OpCode::gather:
      if (plan_->form == Form::packets) return gather_packets(op);
      gather(op);
      return true;
    case OpCode::signal:
      signal(op.peer);
      return true;
    case OpCode::wait:
      return wait(op.peer);
    case OpCode::notify:
      transport_.wake(*links_[static_cast<std::size_t>(op.peer)]);
      return true;
  }
  return true;
}

void Executor::gather(const BoundOp& op) {
  const BoundOperand* operand = &program_->operands[op.first_operand];
  const BoundOperand& first = *operand;
  void* const second = op.destination_count == 2 ? address(operand[1]) : nullptr;
  const BoundOperand* const sources = operand + op.destination_count;
  const bool stream = plan_->stream_output && first.base == static_cast<int>(Place::output);

  if (op.source_count == 1 && op.divisor == 1 && !second)
    return kernels::copy(address(first), address(sources[0]), op.count * plan_->element.value(),
                         stream);
  sources_.resize(op.source_count);
  for (std::uint32_t i = 0; i < op.source_count; ++i) sources_[i] = address(sources[i]);
  plan_->reduce({.destination = address(first),
                 .second_destination = second,
                 .sources = sources_.data(),
                 .source_count = op.source_count,
                 .element_count = op.count,
                 .divisor = op.divisor,
                 .stream_destination = stream});
}

bool Executor::gather_packets(const BoundOp& op) {
  const std::uint64_t per_packet = Packet::payload_bytes / plan_->element.value();
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
    if (!packet->arrived(tag_) && !soon(spins_, [&] { return packet->arrived(tag_); }))
      return false;
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
                   .divisor = op.divisor});
  if (destinations[0].on_board()) reinterpret_cast<Packet*>(first)->publish(tag_);
  if (second) reinterpret_cast<Packet*>(second)->publish(tag_);
  return true;
}

std::byte* Executor::address(const BoundOperand& operand) const {
  return bases_[operand.base] + operand.offset;
}

std::byte* Executor::packet_address(const BoundOperand& operand) const {
  return address(operand) +
         packet_index_ * (operand.on_board() ? sizeof(Packet) : Packet::payload_bytes);
}

void Executor::signal(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  flag_of(segment_, layout_, peer).signals.store(++sent_[p], std::memory_order_release);
  transport_.wake(*links_[p]);
}

bool Executor::wait(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  const auto& signals = flag_of(links_[p]->segment, layout_, self_).signals;
  const std::uint64_t next = received_[p] + 1;
  if (!soon(spins_, [&] { return signals.load(std::memory_order_acquire) >= next; })) return false;
  received_[p] = next;
  if (checked_[p] != call_) check_call(peer), checked_[p] = call_;
  return true;
}

void Executor::finish() {
  (plan_->form == Form::packets ? packet_messages_ : board_blocks_) += plan_->blocks;
  plan_ = nullptr;
  control_of(segment_).completed.store(call_, std::memory_order_release);
  ++progress_;
}

void Executor::record_call() {
  CallRecord& record = control_of(segment_).calls[call_ % CallRecord::kept];
  record.signature.store(plan_->mark.signature, std::memory_order_relaxed);
  record.count.store(plan_->mark.count, std::memory_order_relaxed);
  record.call.store(call_, std::memory_order_release);
}

void Executor::check_call(int peer) const {
  const CallRecord& theirs =
      control_of(links_[static_cast<std::size_t>(peer)]->segment).calls[call_ % CallRecord::kept];
  if (theirs.call.load(std::memory_order_acquire) != call_) return;
  const CallMark mark{.signature = theirs.signature.load(std::memory_order_relaxed),
                      .count = theirs.count.load(std::memory_order_relaxed)};
  if (mark == plan_->mark) return;
  throw Mismatch(fmt::format(
      "ranks disagree about call {}: rank {} called {}, rank {} called {}: all ranks must call the "
      "same collectives in the same order with the same count, type, operation and settings",
      call_, self_, to_string(plan_->mark), peer, to_string(mark)));
}

void Executor::check_calls() const {
  if (!plan_) return;
  for (int peer = 0; peer < static_cast<int>(links_.size()); ++peer)
    if (peer != self_) check_call(peer);
}

std::string Executor::position() const {
  if (!plan_) return "between calls";
  const BoundOp& bound = program_->ops[op_];
  const Op& op = program_->source.ops[op_];
  std::string what = to_string(program_->source, op);
  if (bound.code == OpCode::gather) what = "packets for: " + what;
  return fmt::format("{} (call {}), algorithm {}, step {} of block {} of {}: {}",
                     to_string(plan_->call), call_, plan_->algorithm->name, op.step, block_,
                     plan_->blocks, what);
}

}  // namespace capstan
