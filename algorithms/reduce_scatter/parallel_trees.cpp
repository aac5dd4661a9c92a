// SPDX-License-Identifier: Apache-2.0

// Reduce-scatter over parallel trees: block r is summed up a tree whose root is rank r, a
// binomial one where p is a power of two. The trees are rotations of one another, so that at each
// step a rank sends to one peer only: the sums of all blocks that go its way travel together. This
// is Bruck's all-gather run backwards (Bruck et al., 1997), and the idea of the aggregated trees in
// NCCL's PAT.
//
// ceil(log2 p) steps for any p, (p-1)·n elements sent and 2(p-1)·n read per rank (n being a block),
// p·n scratch and as much for partial sums. For short blocks.
//
//   p = 5, blocks that rank 3 works on     01234 ─► 0..34 ─► ...34 ─► ...3.

#include "algorithms/circle.hpp"
#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {
namespace {

/// Splits the first `length` elements off `rest`.
Span take(Span& rest, Elements length) {
  const Span front = rest.first(length);
  rest = rest.part({length, rest.length - length});
  return front;
}

}  // namespace

Schedule parallel_trees_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  const Span partial = s.scratch(blocks.total());

  // A rank works on the blocks self .. self + active - 1 and passes on the second half of them.
  int active = p;
  while (active > 1) {
    const int distance = (active + 1) / 2, number = active - distance;
    const Span sum = active == p ? s.input() : partial;
    Span outgoing = s.scratch(room_for_blocks(blocks, number)), incoming = outgoing;
    for_blocks_in_circle(blocks, self + distance, number, [&](Range range) {
      s.put(group.right(distance), take(outgoing, range.length), sum.part(range));
    });
    s.signal(group.right(distance));
    s.wait(group.left(distance));
    for_blocks_in_circle(blocks, self, number, [&](Range range) {
      const Span sources[] = {take(incoming, range.length), sum.part(range)};
      if (distance > 1)
        s.reduce(partial.part(range), sources);
      else
        s.complete(s.output(), sources);
    });
    // Where p is odd, nothing was added to the last block of the half that stays.
    if (active == p)
      for_blocks_in_circle(blocks, self + number, distance - number,
                           [&](Range range) { s.copy(partial.part(range), s.input(range)); });
    active = distance;
  }
  return std::move(s).build();
}

}  // namespace capstan
