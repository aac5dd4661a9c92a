#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "core/control/packet.hpp"
#include "core/engine/executor/host_executor.hpp"

namespace capstan {

std::string Executor::position() const {
  if (!plan_) return "between calls";
  if (program_->ops.empty())
    return fmt::format("{} (call {})", to_string(plan_->call), log_.call());
  const BoundOp& bound = program_->ops[std::min<std::size_t>(op_, program_->ops.size() - 1)];
  const Op& op = program_->source.ops[bound.source_op];
  std::string what = to_string(program_->source, op);
  if (bound.code == OpCode::gather) what = "packets for: " + what;
  if (!acquired_) what = "all ranks to finish earlier blocks";
  return fmt::format("{} (call {}), algorithm {}, step {} of block {} of {}: {}",
                     to_string(plan_->call), log_.call(), plan_->algorithm->name, op.step, block_,
                     plan_->blocks, what);
}

std::vector<int> Executor::awaited() const {
  std::vector<int> ranks;
  if (!plan_) return ranks;
  if (all_run())
    std::ranges::copy_if(plan_->pushed_to, std::back_inserter(ranks),
                         [&](int peer) { return !transport_.pushed(Rank{peer}); });
  else if (!acquired_)
    ranks = slots_.unfinished_readers();
  else if (op_ < program_->ops.size())
    ranks = awaited_by(program_->ops[op_]);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<int> Executor::awaited_by(const BoundOp& op) const {
  if (op.code == OpCode::wait || op.code == OpCode::flush) return {op.peer};
  if (op.code != OpCode::gather) return {};
  std::vector<int> ranks;
  for (const BoundOperand& operand : operands_of(op)) {
    const bool packet =
        in_packets(plan_->protocol) && operand.in_staging() && operand.owner != self_;
    const bool missing =
        packet && !reinterpret_cast<const Packet*>(packet_address(operand))->arrived(tag_);
    if (missing || operand.in_peer_buffer()) ranks.push_back(operand.owner);
  }
  return ranks;
}

}  // namespace capstan
