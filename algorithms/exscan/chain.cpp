// SPDX-License-Identifier: Apache-2.0

// Chain exclusive scan: each rank keeps the sum that it gets, and passes it on with its input
// added.
//
// p-1 steps, n elements sent and 3n read per rank, 2n scratch. Long messages as a pipeline of
// blocks.

#include "algorithms/exscan/exscan.hpp"

namespace capstan {

Schedule chain_exscan(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int self = group.position();
  const bool last = self + 1 == group.size();
  const Span landing = s.scratch(count), sum = s.scratch(count);
  if (self == 0) {
    s.send(group.right(), landing, s.input());
    return std::move(s).build();
  }
  s.wait(group.left());
  const Span sources[] = {landing, s.input()};
  if (!last) {
    s.reduce(sum, sources);
    s.send(group.right(), landing, sum);
  }
  s.copy(s.output(), landing);
  return std::move(s).build();
}

}  // namespace capstan
