#pragma once

#include <vector>

#include "algorithms/registry.hpp"
#include "core/ir/proof/prove.hpp"
#include "core/lowering/lower.hpp"

namespace capstan {

/// One call as the executor runs it: a stream of blocks.
struct LoweredCall {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  std::vector<Shape> blocks{};
};

/// Proves the lowered programs of all ranks right, as prove_schedules does for schedules, for
/// calls of any kind that follow one another on one communicator with the executor's own rotation
/// of slots. `change` may spoil programs, to see that it is found.
proof::Verdict prove_programs(const std::vector<LoweredCall>& calls, const Hosts& hosts,
                              bool in_place, const std::function<void(Program&)>& change = {});

}  // namespace capstan
