// SPDX-License-Identifier: Apache-2.0

// Direct gather: everybody sends its block to the root.
//
// 1 step, n elements sent per rank (n being a block), p·n scratch.

#include "algorithms/gather/gather.hpp"

namespace capstan {

Schedule direct_gather(const Group& group, int root, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Span landing = s.scratch(blocks.total());
  if (self != root) {
    s.send(group[root], landing.part(blocks[self]), s.input());
    return std::move(s).build();
  }
  s.copy(s.output(blocks[self]), s.input());
  for (int d = 1; d < p; ++d) {
    const Range block = blocks[group.wrap(self + d)];
    s.wait(group.right(d));
    s.copy(s.output(block), landing.part(block));
  }
  return std::move(s).build();
}

}  // namespace capstan
