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

}  // namespace capstan
