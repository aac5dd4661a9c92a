// SPDX-License-Identifier: Apache-2.0

// Binomial scatter: whoever heads a subtree gets the blocks of all of it and passes them on.
//
// ceil(log2 p) steps, (p-1)·n elements sent by the root (n being a block), p·n scratch. For short
// blocks on many ranks.

#include "algorithms/circle.hpp"
#include "algorithms/scatter/scatter.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_scatter(const Group& group, int root, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  const Span landing = s.scratch(blocks.total());
  const TreePlace place = binomial_place(group, root);
  const int from_root = group.wrap(self - root);

  if (place.parent) s.wait(*place.parent);
  const Span data = place.parent ? landing : s.input();
  for (int slot = static_cast<int>(place.children.size()) - 1; slot >= 0; --slot) {
    const auto child = place.children[static_cast<std::size_t>(slot)];
    if (!child) continue;
    const int first = 1 << slot;
    for_blocks_in_circle(
        blocks, self + first, std::min(first, p - from_root - first),
        [&](Range range) { s.put(*child, landing.part(range), data.part(range)); });
    s.signal(*child);
  }
  s.copy(s.output(), data.part(blocks[self]));
  return std::move(s).build();
}

}  // namespace capstan
