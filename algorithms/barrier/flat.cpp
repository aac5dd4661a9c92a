// SPDX-License-Identifier: Apache-2.0

// Flat barrier: everybody tells everybody.
//
// 1 step, p-1 messages sent per rank. The least latency where a message costs its sender little, as
// over shared memory.

#include "algorithms/barrier/barrier.hpp"

namespace capstan {

Schedule flat_barrier(const Group& group) {
  ScheduleBuilder s{group, Elements{0}, Elements{0}};
  for (int d = 1; d < group.size(); ++d) s.signal(group.right(d));
  for (int d = 1; d < group.size(); ++d) s.wait(group.right(d));
  return std::move(s).build();
}

Cost flat_barrier_cost(const Hosts& hosts, Elements) {
  const double looks = hosts.single() ? (hosts.ranks() - 1) / 8.0 : 0;  // eight flags to a line
  return {.steps = 1 + looks, .messages = ranks_elsewhere(hosts)};
}

}  // namespace capstan
