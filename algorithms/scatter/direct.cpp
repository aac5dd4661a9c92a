// SPDX-License-Identifier: Apache-2.0

// Direct scatter: the root sends each rank its block.
//
// 1 step, (p-1)·n elements sent by the root (n being a block), n scratch.

#include "algorithms/scatter/scatter.hpp"

namespace capstan {

Schedule direct_scatter(const Group& group, int root, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  const Span landing = s.scratch(blocks.largest());
  if (self != root) {
    s.wait(group[root]);
    s.copy(s.output(), landing.first(blocks[self].length));
    return std::move(s).build();
  }
  for (int d = 1; d < p; ++d) {
    const Range theirs = blocks[group.wrap(self + d)];
    s.send(group.right(d), landing.first(theirs.length), s.input(theirs));
  }
  s.copy(s.output(), s.input(blocks[self]));
  return std::move(s).build();
}

}  // namespace capstan
