// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/host_executor.hpp"

#include <algorithm>

namespace capstan {

HostExecutor::HostExecutor(Peers& peers, const SegmentLayout& layout, int spins)
    : peers_(peers),
      transport_(peers.transport()),
      layout_(layout),
      log_(peers),
      poll_(peers, spins),
      slots_(peers, layout_, log_, poll_),
      signals_(peers, layout, log_, poll_),
      packets_(poll_, slots_),
      peer_memory_(peers, layout, log_, combiner_),
      buffers_(peers, layout, log_),
      call_(peers) {}

void HostExecutor::prepare(const Plan& plan) {
  slots_.map_pages(plan);
  log_.note(plan.call, plan.mark);
}

bool HostExecutor::start(const Plan& plan, const void* input, void* output) {
  begin_call(static_cast<const HostPlan&>(plan), input, output);
  return true;
}

bool HostExecutor::run(const HostPlan& plan, const void* input, void* output) {
  begin_call(plan, input, output);
  return run_call();
}

bool HostExecutor::advance() {
  return !call_.plan || run_call();
}

/// Loads no word that it has just stored, and above all no two such words in one load: that load
/// would wait until all earlier stores have gained their cache lines from peers.
inline void HostExecutor::begin_call(const HostPlan& plan, const void* input, void* output) {
  // Before it has begun: there may be no memory.
  if (call_.scratch.size() < plan.scratch.value()) call_.scratch.resize(plan.scratch.value());
  if (call_.sources.size() < plan.most_sources) call_.sources.resize(plan.most_sources);
  call_.plan = &plan;
  auto* const to = static_cast<std::byte*>(output);
  call_.input = static_cast<const std::byte*>(input);
  if (reads_buffers(plan.protocol)) call_.input = buffers_.stable_input(plan, call_.input, to);
  call_.output = to;
  if (!plan.pushed_to.empty()) buffers_.announce_to_transport(call_);
  call_.round = 0;
  call_.phase = 0;
  log_call();
  packets_.begin_call(plan, log_.call());
  slots_.begin_call(plan);
  enter_block(0);
}

inline void HostExecutor::log_call() {
  const Plan& plan = *call_.plan;
  if (!reads_buffers(plan.protocol)) return log_.begin(plan.mark, plan.digest, nullptr);
  const AnnouncedBuffers announced = buffers_.announced(call_);
  log_.begin(plan.mark, plan.digest, &announced);
}

/// Makes a block the current one, at its first operation.
inline void HostExecutor::enter_block(std::uint64_t block) {
  call_.has_block = true;
  call_.block = block;
  call_.program = &call_.plan->host_program(block);
  call_.op = 0;
  call_.slot_acquired = false;
  call_.place_buffers();
  call_.slot_offset = slots_.enter_block(call_.plan->slots, block, call_.plan->places);
}

inline bool HostExecutor::run_call() {
  if (call_.plan->blocks == 1 ? !run_block() : !run_stream()) return false;
  if (!call_.plan->pushed_to.empty() && !flush_buffers()) return false;
  end_call();
  return true;
}

/// Runs the only block of a call: its phases follow each other.
inline bool HostExecutor::run_block() {
  return run_until(call_.program->phase_end.back());
}

inline bool HostExecutor::run_until(std::uint32_t end) {
  if (steps_) [[unlikely]]
    return acquire_recorded_slot() && run_recorded_ops(end);
  return acquire_slot() && run_ops(end);
}

/// Round t runs phase k of block t-k, for each k: a block's first phase overlaps the waits of the
/// blocks before it. A long stream runs in parts, between which other threads get the rank's lock:
/// to abort or cancel, they need not wait for its end.
bool HostExecutor::run_stream() {
  constexpr int phases_in_a_row = 64;
  for (int phases = 0; call_.round < call_.plan->rounds(); next_phase(), ++phases) {
    if (phases == phases_in_a_row) return false;
    if (call_.has_block && !run_phase()) return false;
  }
  return true;
}

bool HostExecutor::run_phase() {
  return run_until(call_.program->phase_end[call_.phase]);
}

void HostExecutor::next_phase() {
  const Plan& plan = *call_.plan;
  if (call_.has_block && plan.publishes(call_.block, call_.phase))
    slots_.finish_block(plan, call_.block);
  if (++call_.phase == plan.phases) call_.phase = 0, ++call_.round;
  call_.has_block = call_.round >= call_.phase && call_.round - call_.phase < plan.blocks;
  if (!call_.has_block) return;
  enter_block(call_.round - call_.phase);
  if (call_.phase == 0) return;
  call_.op = call_.program->phase_end[call_.phase - 1];
  call_.slot_acquired = true;
}

/// True when the block may be written to its slot: the slot's last readers have finished.
inline bool HostExecutor::acquire_slot() {
  if (call_.slot_acquired) return true;
  return call_.slot_acquired = slots_.acquire(call_.program->readers, call_.block,
                                              call_.plan->guarantees.bounded_skew);
}

inline bool HostExecutor::run_ops(std::uint32_t end) {
  for (; call_.op < end; ++call_.op, ++operations_done_)
    if (!execute(call_.program->ops[call_.op])) return false;
  return true;
}

inline bool HostExecutor::execute(const HostOp& op) {
  if (op.fits_packet) return packets_.copy_packet(call_, op);
  switch (op.code) {
    case OpCode::gather:
      if (in_packets(call_.plan->protocol)) return packets_.gather(call_, op);
      return op.reaches_peers ? peer_memory_.gather(call_, op) : gather(op);
    case OpCode::push:
      return push(op);
    case OpCode::flush:
      return flush(op.peer);
    case OpCode::signal:
      signals_.send(op.peer);
      return true;
    case OpCode::wait:
      return signals_.wait(op.peer, prefetched_by(op));
    case OpCode::notify:
      peers_.wake(op.peer);
      return true;
  }
  return true;
}

inline PrefetchedLines HostExecutor::prefetched_by(const HostOp& wait) const {
  if (wait.prefetched_lines == 0) return {};
  return {call_.address(call_.program->operands[wait.prefetched_operand]), wait.prefetched_lines};
}

/// For run_recorded_ops(): execute() is inlined where steps are not recorded.
bool HostExecutor::execute_recorded(const HostOp& op) {
  return execute(op);
}

/// Gathers operands that all lie in memory of this process, and whose data have arrived.
bool HostExecutor::gather(const HostOp& op) {
  const BoundOperand* const destinations = &call_.program->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  for (std::uint32_t i = 0; i < op.source_count; ++i) call_.sources[i] = call_.address(sources[i]);
  std::byte* const second = op.destination_count == 2 ? call_.address(destinations[1]) : nullptr;
  combiner_.combine(call_, op, call_.address(destinations[0]), second, op.count, op.is_for_peers);
  return true;
}

/// Pushes to the mirror of this rank's segment that the peer, on another host, reads.
bool HostExecutor::push(const HostOp& op) {
  const BoundOperand& seen = call_.program->operands[op.first_operand];
  const BoundOperand& source = (&seen)[op.destination_count];
  const Bytes element = call_.plan->element;
  const std::uint64_t count = in_packets(call_.plan->protocol)
                                  ? packets_for(Elements{op.count}, element) * sizeof(Packet)
                                  : op.count * element.value();
  const Bytes offset{static_cast<std::uint64_t>(call_.address(seen) - peers_.own_segment())};
  if (source.base == seen.base)
    transport_.push(op.peer, offset, Bytes{count});
  else
    transport_.push_from(op.peer, offset, call_.address(source), Bytes{count});
  return true;
}

/// True when the transport no longer reads any source that was pushed to the peer: nearly always
/// at once.
bool HostExecutor::flush(Rank peer) {
  if (transport_.pushed(peer)) return true;
  peers_.wake(peer);
  transport_.progress();
  return transport_.pushed(peer);
}

/// Flushes all pushes before the call ends: the caller may then change its buffers, and may not
/// make another call for a long time.
bool HostExecutor::flush_buffers() {
  return std::ranges::all_of(call_.plan->pushed_to, [&](Rank peer) { return flush(peer); });
}

inline void HostExecutor::end_call() {
  log_.end(peers_.own_control().finished);
  slots_.end_call(*call_.plan);
  call_.plan = nullptr;
  ++operations_done_;
}

}  // namespace capstan
