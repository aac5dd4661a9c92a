// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "algorithms/registry.hpp"
#include "capstan/hosts.hpp"

namespace capstan {

/// The cost of a call for its busiest rank, counted in the schedules of the ranks: for choices
/// among so many ranks that a simulation would take too long, and for first choices. Data are
/// counted in elements, so that a cost does not depend on the type. `far`: to or from other hosts
/// only.
struct Cost {
  double steps = 0, far_steps = 0;        ///< messages that follow one another
  double messages = 0, far_messages = 0;  ///< of one rank, sent or received
  double sent = 0, far_sent = 0;          ///< elements sent, or received but not combined
  double far_chain = 0;  ///< elements that cross between hosts one after the other, in one block
  double reduced = 0;    ///< elements read by reductions
};

/// Counts the schedules of all ranks. Where all ranks do the same, or all schedules together have
/// more than `most_steps`, it counts those of a few, as if their peers did the same at the same
/// time. A thousand steps take 0.1 ms. A pure function.
Cost cost_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
             std::size_t most_steps);

}  // namespace capstan
