// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/control/peers.hpp"
#include "core/engine/executor/host_plan.hpp"

namespace capstan {

/// The call that a host executor runs: its plan, its position, and where the operands of the
/// current block lie. HostExecutor changes the position; its parts read it.
struct RunningCall {
  explicit RunningCall(Peers& peers);

  const HostPlan* plan = nullptr;  ///< null between calls
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  std::uint64_t round = 0, phase = 0;
  std::uint64_t block = 0;
  bool has_block = false;                ///< this phase has a block in this round
  bool slot_acquired = false;            ///< the slot of the block may be written
  const HostProgram* program = nullptr;  ///< of the block
  std::uint32_t op = 0;                  ///< the operation of the program that runs next

  std::uint64_t slot_offset = 0;  ///< of the block's place in its slot, in every segment
  std::vector<std::byte*> bases;  ///< see BoundOperand
  std::vector<std::byte> scratch;
  /// Where the sources of the current operation are; filled by the part that runs it. It has room
  /// for those of any operation of the plan.
  std::vector<const void*> sources;

  std::byte* address(const BoundOperand& operand) const {
    return bases[operand.base] + operand.offset + (operand.in_staging() ? slot_offset : 0);
  }
  std::span<const BoundOperand> operands_of(const HostOp& op_) const {
    return std::span{program->operands}.subspan(op_.first_operand,
                                                op_.destination_count + op_.source_count);
  }
  /// Bytes from the begin of a buffer to the current block's part.
  std::uint64_t block_offset() const {
    return block * bytes_of(plan->block_count, plan->element).value();
  }
  /// Points the bases of the local buffers at the current block's part.
  void place_buffers() {
    const std::uint64_t offset = block_offset();
    bases[0] = const_cast<std::byte*>(input) + offset;  // programs never write to the input
    bases[1] = output + offset;
    bases[2] = scratch.data();
  }
  /// Every operation has run. Pushed data may still be in flight.
  bool all_run() const {
    return plan->blocks == 1 ? op == program->phase_end.back() : round == plan->rounds();
  }
};

}  // namespace capstan
