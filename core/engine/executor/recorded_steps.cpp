// SPDX-License-Identifier: Apache-2.0

// Steps that are recorded for a profiler: the same operations, with their times.

#include <algorithm>

#include "core/engine/executor/host_executor.hpp"

namespace capstan {
namespace {

/// The rank whose memory an operation reads, or else the one whose memory it writes.
std::optional<Rank> peer_of(const HostOp& op, const RunningCall& call, Rank self) {
  if (op.code != OpCode::gather) return op.peer;
  const auto operands = call.operands_of(op);
  const auto is_of_peer = [&](const BoundOperand& operand) {
    return (operand.in_staging() || operand.in_peer_buffer()) && operand.owner != self;
  };
  const auto sources = operands.subspan(op.destination_count);
  if (const auto read = std::ranges::find_if(sources, is_of_peer); read != sources.end())
    return read->owner;
  if (const auto written = std::ranges::find_if(operands, is_of_peer); written != operands.end())
    return written->owner;
  return std::nullopt;
}

}  // namespace

bool HostExecutor::run_recorded_ops(std::uint32_t end) {
  for (; call_.op < end; ++call_.op, ++operations_done_) {
    const HostOp& op = call_.program->ops[call_.op];
    steps_->begin_step();
    if (!execute_recorded(op)) return false;
    steps_->end_step({.code = op.code,
                      .sources = op.source_count,
                      .peer = peer_of(op, call_, peers_.self()),
                      .bytes = bytes_of(Elements{op.count}, call_.plan->element),
                      .block = call_.block,
                      .step = call_.program->source->ops[op.source_op].step});
  }
  return true;
}

/// A slot that is free at once is no step.
bool HostExecutor::acquire_recorded_slot() {
  if (call_.slot_acquired) return true;
  const bool waits = slot_awaited_;
  steps_->begin_step();
  slot_awaited_ = !(call_.slot_acquired = slots_.acquire(call_.program->readers, call_.block,
                                                         call_.plan->guarantees.bounded_skew));
  if (slot_awaited_) return false;
  if (waits)
    steps_->end_step({.block = call_.block});
  else
    steps_->forget_step();
  return true;
}

}  // namespace capstan
