// SPDX-License-Identifier: Apache-2.0

// Reports of what a running call waits for, for hang detection and error texts.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/engine/executor/host_executor.hpp"

namespace capstan {
namespace {

struct Steps {
  std::uint32_t step = 0, steps = 0;  // step i of n
};

/// The steps of the schedule, from 1, in the current block.
Steps steps_of(const RunningCall& call) {
  if (!call.plan || call.program->ops.empty()) return {};
  const auto& ops = call.program->source->ops;
  const auto step_of = [&](const HostOp& op) { return ops[op.source_op].step + 1; };
  const HostProgram& program = *call.program;
  return {step_of(program.ops[std::min<std::size_t>(call.op, program.ops.size() - 1)]),
          step_of(program.ops.back())};
}

std::string position_of(const RunningCall& call, std::uint64_t number) {
  if (!call.plan) return "between calls";
  const Plan& plan = *call.plan;
  const HostProgram& program = *call.program;
  if (program.ops.empty()) return fmt::format("{} (call {})", to_string(plan.call), number);
  const HostOp& bound = program.ops[std::min<std::size_t>(call.op, program.ops.size() - 1)];
  const Op& op = program.source->ops[bound.source_op];
  std::string what = to_string(*program.source, op);
  if (bound.code == OpCode::gather) what = "packets for: " + what;
  if (!call.slot_acquired) what = "all ranks to finish earlier blocks";
  const auto [step, steps] = steps_of(call);
  return fmt::format("{} (call {}), algorithm {}, step {} of {}, block {} of {}: {}",
                     to_string(plan.call), number, plan.algorithm->name, step, steps,
                     call.block + 1, plan.blocks, what);
}

/// The peers that an operation waits for; `packets` and `memory` belong to the same call.
std::vector<Rank> awaited_by(const HostOp& op, const RunningCall& call, const PacketLane& packets,
                             const PeerMemory& memory, Rank self) {
  if (op.code == OpCode::wait || op.code == OpCode::flush) return {op.peer};
  if (op.code != OpCode::gather) return {};
  std::vector<Rank> missing, owners;
  for (const BoundOperand& operand : call.operands_of(op)) {
    const bool is_packet =
        in_packets(call.plan->protocol) && operand.in_staging() && operand.owner != self;
    if (is_packet && !packets.has_arrived(call, operand)) missing.push_back(operand.owner);
    if (!operand.in_peer_buffer()) continue;
    owners.push_back(operand.owner);
    if (!memory.is_open(operand)) missing.push_back(operand.owner);
  }
  return missing.empty() ? owners : missing;
}

std::vector<Rank> sorted(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

Executor::Report HostExecutor::report() const {
  const std::uint64_t blocks = call_.plan ? call_.plan->blocks : 0;
  const auto [step, steps] = steps_of(call_);
  return {.position = position_of(call_, log_.call()),
          .awaited = awaited(),
          .needed_blocks = slots_.first_block() + blocks,
          .call = log_.call(),
          .mark = call_.plan ? call_.plan->mark : CallMark{},
          .step = step,
          .steps = steps};
}

std::vector<Rank> HostExecutor::awaited() const {
  if (!call_.plan) return {};
  if (call_.all_run()) {
    std::vector<Rank> unsent;
    std::ranges::copy_if(call_.plan->pushed_to, std::back_inserter(unsent),
                         [&](Rank peer) { return !transport_.pushed(peer); });
    return sorted(unsent);
  }
  if (!call_.slot_acquired) return sorted(slots_.unfinished_readers());
  if (call_.op == call_.program->ops.size()) return {};
  return sorted(
      awaited_by(call_.program->ops[call_.op], call_, packets_, peer_memory_, peers_.self()));
}

}  // namespace capstan
