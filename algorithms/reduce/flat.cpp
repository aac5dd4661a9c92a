// SPDX-License-Identifier: Apache-2.0

// Flat reduce: everybody sends its input to the root, which adds up in the order of ranks.
//
// 1 step, n elements sent per rank, p·n read by the root, p·n scratch. For tiny messages, and for
// operations that are not commutative.

#include <vector>

#include "algorithms/reduce/reduce.hpp"

namespace capstan {

Schedule flat_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) contributions.push_back(s.scratch(count));
  if (self != root) {
    s.send(group[root], contributions[self], s.input());
    return std::move(s).build();
  }
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  contributions[self] = s.input();
  s.complete(s.output(), contributions);
  return std::move(s).build();
}

}  // namespace capstan
