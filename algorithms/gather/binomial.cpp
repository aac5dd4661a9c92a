// SPDX-License-Identifier: Apache-2.0

// Binomial gather: whoever heads a subtree collects the blocks of all of it and passes them on in
// one message.
//
// ceil(log2 p) steps, up to p/2·n elements sent per rank (n being a block), p·n scratch. For short
// blocks on many ranks.

#include "algorithms/circle.hpp"
#include "algorithms/gather/gather.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_gather(const Group& group, int root, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Span landing = s.scratch(blocks.total());
  const TreePlace place = binomial_place(group, root);
  const int from_root = group.wrap(self - root);
  // The blocks of up to 2^slot positions from self + first on: of the subtree of a child, or of
  // this rank.
  const auto for_subtree = [&](int first, std::size_t slot, auto visit) {
    for_blocks_in_circle(blocks, self + first, std::min(1 << slot, p - from_root - first), visit);
  };
  const bool leaf = place.children.empty() || !place.children.front();

  if (!place.parent)
    s.copy(s.output(blocks[self]), s.input());
  else if (!leaf)
    s.copy(landing.part(blocks[self]), s.input());
  for (std::size_t slot = 0; slot < place.children.size(); ++slot) {
    if (!place.children[slot]) continue;
    s.wait(*place.children[slot]);
    if (!place.parent)
      for_subtree(1 << slot, slot,
                  [&](Range range) { s.copy(s.output(range), landing.part(range)); });
  }
  if (place.parent) {
    for_subtree(0, place.children.size(), [&](Range range) {
      s.put(*place.parent, landing.part(range), leaf ? s.input() : landing.part(range));
    });
    s.signal(*place.parent);
  }
  return std::move(s).build();
}

}  // namespace capstan
