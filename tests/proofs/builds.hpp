// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/bind.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"
#include "core/schedule/proof/shapes.hpp"

namespace capstan {

inline ByRank<Schedule> schedules_of(const Algorithm& algorithm, const Hosts& hosts,
                                     Elements count) {
  return schedules_of(algorithm, hosts, Shape{.count = count});
}

/// Takes out the operations that `is_out(op)`, which is asked for each of them in order.
template <class IsOut>
void erase_ops(BoundProgram& program, IsOut is_out) {
  for (std::size_t i = 0; i < program.ops.size();)
    is_out(program.ops[i]) ? erase_op(program, i) : static_cast<void>(++i);
}

/// Every algorithm of every collective.
inline std::vector<const Algorithm*> every_algorithm() {
  std::vector<const Algorithm*> all;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) all.push_back(&algorithm);
  return all;
}

/// "all_gather_ring".
inline std::string full_name(const Algorithm& algorithm) {
  return std::string{name_of(algorithm.collective)} + "_" + std::string{algorithm.name};
}

}  // namespace capstan
