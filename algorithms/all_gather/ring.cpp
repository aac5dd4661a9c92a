// SPDX-License-Identifier: Apache-2.0

// Ring all-gather: each block travels once round the ring.
//
// p-1 steps, (p-1)·n elements sent per rank (n being a block), p·n scratch. Each rank talks to its
// neighbours only.

#include "algorithms/all_gather/all_gather.hpp"

namespace capstan {

Schedule ring_all_gather(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Span landing = s.scratch(blocks.total());
  s.copy(s.output(blocks[self]), s.input());
  for (int k = 0; k + 1 < p; ++k) {
    const Range outgoing = blocks[group.wrap(self - k)],
                incoming = blocks[group.wrap(self - k - 1)];
    s.send(group.right(), landing.part(outgoing), k == 0 ? s.input() : landing.part(outgoing));
    s.wait(group.left());
    s.copy(s.output(incoming), landing.part(incoming));
  }
  return std::move(s).build();
}

}  // namespace capstan
