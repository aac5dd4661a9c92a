// Binomial gather: whoever heads a subtree collects the blocks of all of it and passes them on.
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
  // The subtree of child `slot` are the positions from self + 2^slot on.
  const auto for_subtree = [&](std::size_t slot, auto visit) {
    const int first = 1 << slot;
    for_blocks_in_circle(blocks, self + first, std::min(first, p - from_root - first), visit);
  };

  if (place.parent)
    s.put(*place.parent, landing.part(blocks[self]), s.input());
  else
    s.copy(s.output(blocks[self]), s.input());
  for (std::size_t slot = 0; slot < place.children.size(); ++slot) {
    if (!place.children[slot]) continue;
    s.wait(*place.children[slot]);
    for_subtree(slot, [&](Range range) {
      if (place.parent)
        s.put(*place.parent, landing.part(range), landing.part(range));
      else
        s.copy(s.output(range), landing.part(range));
    });
  }
  if (place.parent) s.signal(*place.parent);
  return std::move(s).build();
}

Cost binomial_gather_cost(int ranks, Elements count) {
  return {.steps = static_cast<double>(binomial_slots(ranks)),
          .sent = (ranks - 1 + ranks / 2.0) * static_cast<double>(count.value())};
}

}  // namespace capstan
