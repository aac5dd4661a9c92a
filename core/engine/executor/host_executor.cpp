#include "core/engine/executor/host_executor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan {

Executor::Executor(Peers& peers, const SegmentLayout& layout, int spins)
    : peers_(peers),
      transport_(peers.transport()),
      layout_(layout),
      self_(peers.self()),
      spins_(spins),
      segment_(peers.own_segment()),
      log_(peers),
      slots_(peers, log_, layout) {
  const auto size = static_cast<std::size_t>(peers.count());
  sent_.resize(size);
  received_.resize(size);
  heard_.resize(size);
  const int ranks = peers.count();
  bases_.resize(BoundOperand::taken_from(ranks, ranks));
  for (int rank = 0; rank < ranks; ++rank) {  // only the own one is written
    bases_[BoundOperand::segment_of(rank)] = const_cast<std::byte*>(peers.segment(rank));
    bases_[BoundOperand::taken_from(rank, ranks)] = const_cast<std::byte*>(peers.taken_from(rank));
  }
  bases_[BoundOperand::segment_of(self_)] = segment_;
}

inline void Executor::begin_call() {
  if (!reads_buffers(plan_->protocol)) return log_.begin(plan_->mark, plan_->digest, nullptr);
  const AnnouncedBuffers announced{
      .input = input_,
      .output = output_,
      .input_allocation = peers_.allocation_of(input_, plan_->input_bytes),
      .output_allocation = peers_.allocation_of(output_, plan_->output_bytes)};
  log_.begin(plan_->mark, plan_->digest, &announced);
}

void Executor::start(const Plan& plan, const void* input, void* output) {
  enter(plan, input, output);
}

bool Executor::run(const Plan& plan, const void* input, void* output) {
  enter(plan, input, output);
  return go_on();
}

bool Executor::advance() {
  return !plan_ || go_on();
}

/// What has just been stored is not loaded again here, above all not two words as one: that would
/// wait until all stores before it have taken their lines from peers.
inline void Executor::enter(const Plan& plan, const void* input, void* output) {
  plan_ = &plan;
  auto* const to = static_cast<std::byte*>(output);
  input_ = static_cast<const std::byte*>(input);
  kept_.clear();
  if (reads_buffers(plan.protocol)) input_ = kept(input_, to);
  output_ = to;
  if (scratch_.size() < plan.scratch.value()) scratch_.resize(plan.scratch.value());
  if (sources_.size() < plan.most_sources) sources_.resize(plan.most_sources);
  if (!plan.pushed_to.empty()) announce_sources();
  round_ = 0;
  phase_ = 0;
  packet_index_ = 0;
  begin_call();
  tag_ = packet_tag(log_.call(), static_cast<std::uint32_t>(plan.digest));
  slots_.begin_call(plan);
  enter_block(0);
}

void Executor::announce_sources() {
  transport_.announce_sources({input_, plan_->input_bytes.value()},
                              {output_, plan_->output_bytes.value()});
}

/// The input, or a copy: in place, what this rank receives may overwrite what peers have yet to
/// read.
const std::byte* Executor::kept(const std::byte* input, const std::byte* output) {
  if (!overwrites_input(plan_->call.collective)) return input;
  const std::size_t length = plan_->input_bytes.value();
  if (length == 0 || output >= input + length || input >= output + plan_->output_bytes.value())
    return input;
  kept_.assign(input, input + length);
  return kept_.data();
}

inline bool Executor::go_on() {
  if (plan_->blocks == 1 ? !run_block() : !run_stream()) return false;
  if (!plan_->pushed_to.empty() && !flush_buffers()) return false;
  finish();
  return true;
}

/// Round t runs phase k of block t-k, for each k: a block's first phase overlaps the waits of those
/// before it.
bool Executor::run_stream() {
  for (; round_ < plan_->rounds(); next_phase())
    if (has_block_ && !run_phase()) return false;
  return true;
}

void Executor::next_phase() {
  leave_phase();
  if (++phase_ == plan_->phases) phase_ = 0, ++round_;
  has_block_ = round_ >= phase_ && round_ - phase_ < plan_->blocks;
  if (!has_block_) return;
  enter_block(round_ - phase_);
  if (phase_ == 0) return;
  op_ = program_->phase_end[phase_ - 1];
  acquired_ = true;
}

/// At the begin of it.
inline void Executor::enter_block(std::uint64_t block) {
  has_block_ = true;
  block_ = block;
  program_ = &plan_->program(block);
  op_ = 0;
  acquired_ = false;
  place_block();
}

/// Finds this block's part of the buffers and its slot.
inline void Executor::place_block() {
  place_buffers();
  slots_.enter_block(plan_->slots, block_);
}

/// A slot may be written again only after its last readers have finished.
inline bool Executor::acquire_slot() {
  return acquired_ = slots_.acquire(
             program_->readers, block_, plan_->guarantees.paced,
             [this](int peer, const auto& condition) { return comes(peer, condition); });
}

/// From the last phase on that reads staging buffers, nothing of the block is read here any more.
void Executor::leave_phase() {
  if (has_block_ && plan_->publishes(block_, phase_)) slots_.finish_block(*plan_, block_);
}

/// The only one: its phases follow each other.
inline bool Executor::run_block() {
  return (acquired_ || acquire_slot()) && run_ops(program_->phase_end.back());
}

bool Executor::run_phase() {
  return (acquired_ || acquire_slot()) && run_ops(program_->phase_end[phase_]);
}

inline bool Executor::run_ops(std::uint32_t end) {
  for (; op_ < end; ++op_, ++progress_)
    if (!execute(program_->ops[op_])) return false;
  return true;
}

inline bool Executor::execute(const BoundOp& op) {
  if (op.fits_packet) return copy_packet(op);
  switch (op.code) {
    case OpCode::gather:
      if (in_packets(plan_->protocol)) return gather_packets(op);
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

/// To where the peer, on another host, sees the rank's own staging buffer.
bool Executor::push(const BoundOp& op) {
  const BoundOperand& seen = program_->operands[op.first_operand];
  const BoundOperand& source = (&seen)[op.destination_count];
  const std::uint64_t count = in_packets(plan_->protocol)
                                  ? packets_for(Elements{op.count}, plan_->element) * packet_bytes
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

void Executor::signal(int peer) {
  Flag& flag = flag_of(segment_, layout_, peer);
  flag.histories[log_.call() % Flag::history_depth].store(log_.history(),
                                                          std::memory_order_relaxed);
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
  for (std::size_t i = 0; i < Flag::history_depth; ++i)
    heard.histories[i] = flag.histories[i].load(std::memory_order_relaxed);
  return true;
}

inline void Executor::finish() {
  log_.end(control_of(segment_).finished);
  slots_.end_call(*plan_);
  plan_ = nullptr;
  ++progress_;
}

}  // namespace capstan
