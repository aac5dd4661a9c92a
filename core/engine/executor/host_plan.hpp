// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/lowering/plan.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {

/// An operation, and how the processor does it.
struct HostOp : BoundOp {
  bool streams = false;       ///< the result goes past the cache
  bool copy_streams = false;  ///< the same of what is written to a second destination
  bool from_memory = false;   ///< sources are in buffers, and these exceed the cache
  bool fits_packet = false;   ///< a copy in packets, of no more than one
  /// The cache lines that a wait prefetches when the signal arrives: their number, and the operand
  /// in which they begin.
  std::uint32_t prefetched_lines = 0, prefetched_operand = 0;
};

/// A bound program as HostExecutor runs it: all that it needs, in one place.
struct HostProgram {
  std::vector<HostOp> ops;
  std::vector<BoundOperand> operands;
  std::vector<std::uint32_t> phase_end;  ///< ops of phase k end here
  SlotReaders readers;
  const Program* source = nullptr;  ///< the program that it was made from, for reports
};

/// A plan with what the processor needs beside it: kernels and decisions about its caches. Made
/// once, so that nothing of it is looked up when the plan runs. A plan for devices gets nothing.
struct HostPlan : Plan {
  HostPlan() = default;
  explicit HostPlan(Plan plan);
  HostPlan(HostPlan&&) = default;  // programs refer to the plan's

  const HostProgram& host_program(std::uint64_t block) const {
    return host_programs[program_of.empty() ? 0 : program_of[block]];
  }

  std::vector<HostProgram> host_programs{};
  kernels::ReduceKernel reduce = nullptr;
  kernels::UserReduction user{};  ///< for an operation that the user has defined
};

}  // namespace capstan
