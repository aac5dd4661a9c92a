// SPDX-License-Identifier: Apache-2.0

// Flat all-reduce: everybody sends its whole input to everybody and adds up for itself.
//
// 1 step, (p-1)·n elements sent and p·n read per rank, p·n scratch. For tiny messages, where only
// the number of steps matters. All ranks add in the same order, so all get the same bits.

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"

namespace capstan {

Schedule flat_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) contributions.push_back(s.scratch(count));

  for (int d = 1; d < p; ++d) s.send(group.right(d), contributions[self], s.input());
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  contributions[self] = s.input();
  s.complete(s.output(), contributions);
  return std::move(s).build();
}

}  // namespace capstan
