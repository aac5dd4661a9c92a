// SPDX-License-Identifier: Apache-2.0

// Binomial tree all-reduce: reduce to the first rank, then broadcast from it.
//
// 2·ceil(log2 p) steps; the root sends and receives n·ceil(log2 p) elements; n·ceil(log2 p)
// scratch. For small messages on many ranks: each rank talks to few others.
//
//   p = 8     0 ── 4 ── 6 ── 7
//             │    └─ 5
//             ├─ 2 ── 3
//             └─ 1

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_tree_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const TreePlace place = binomial_place(group, 0);
  const Range all{Elements{0}, count};
  reduce_up(s, place, all, binomial_slots(group.size()), s.output());
  broadcast_down(s, place, all);
  return std::move(s).build();
}

}  // namespace capstan
