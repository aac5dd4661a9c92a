// SPDX-License-Identifier: Apache-2.0

// Dissemination barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
// 1988): at step k every rank tells the one 2^k to its right, and so whom it has heard of.
//
// ceil(log2 p) steps, one signal per rank and step.

#include "algorithms/barrier/barrier.hpp"

namespace capstan {

Schedule dissemination_barrier(const Group& group) {
  ScheduleBuilder s{group, Elements{0}, Elements{0}};
  for (int distance = 1; distance < group.size(); distance *= 2) {
    s.signal(group.right(distance));
    s.wait(group.left(distance));
  }
  return std::move(s).build();
}

}  // namespace capstan
