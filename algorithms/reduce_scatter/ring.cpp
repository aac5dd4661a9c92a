// SPDX-License-Identifier: Apache-2.0

// Ring reduce-scatter (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): the
// partial sum of block r starts at rank r+1 and comes round to rank r.
//
// p-1 steps, (p-1)·n elements sent and 2(p-1)·n read per rank (n being a block), p·n scratch.

#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {

Schedule ring_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  Span sum = s.input(blocks[group.wrap(self - 1)]);
  for (int k = 0; k + 1 < p; ++k) {
    const Range incoming = blocks[group.wrap(self - k - 2)];
    const Span landing = s.scratch(blocks.largest());
    s.send(group.right(), landing.first(sum.length), sum);
    s.wait(group.left());
    sum = landing.first(incoming.length);
    const Span sources[] = {sum, s.input(incoming)};
    if (k + 2 < p)
      s.reduce(sum, sources);
    else
      s.complete(s.output(), sources);
  }
  return std::move(s).build();
}

}  // namespace capstan
