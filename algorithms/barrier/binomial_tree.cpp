// SPDX-License-Identifier: Apache-2.0

// Tree barrier: all report up a binomial tree, the root's answer comes down.
//
// 2·ceil(log2 p) steps, 2(p-1) signals in all: the fewest there can be.

#include <ranges>

#include "algorithms/barrier/barrier.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_tree_barrier(const Group& group) {
  ScheduleBuilder s{group, Elements{0}, Elements{0}};
  const TreePlace place = binomial_place(group, 0);
  for (const auto& child : place.children)
    if (child) s.wait(*child);
  if (place.parent) s.signal(*place.parent), s.wait(*place.parent);
  for (const auto& child : place.children | std::views::reverse)
    if (child) s.signal(*child);
  return std::move(s).build();
}

}  // namespace capstan
