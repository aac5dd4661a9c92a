// SPDX-License-Identifier: Apache-2.0

// Bruck's all-gather (Bruck et al., "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", 1997): at step k a rank has the blocks of the 2^k ranks from
// its own on and gets those of the next 2^k. Blocks go to their final place at once, so that
// nothing has to be rotated at the end.
//
// ceil(log2 p) steps for any p, (p-1)·n elements sent per rank (n being a block), p·n scratch. For
// short blocks.

#include "algorithms/all_gather/all_gather.hpp"
#include "algorithms/circle.hpp"

namespace capstan {

Schedule bruck_all_gather(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Span landing = s.scratch(blocks.total());
  s.copy(s.output(blocks[self]), s.input());
  for (int distance = 1; distance < p; distance *= 2) {
    const int number = std::min(distance, p - distance);
    for_blocks_in_circle(blocks, self, number, [&](Range range) {
      s.put(group.left(distance), landing.part(range), s.output(range));
    });
    s.signal(group.left(distance));
    s.wait(group.right(distance));
    for_blocks_in_circle(blocks, self + distance, number,
                         [&](Range range) { s.copy(s.output(range), landing.part(range)); });
  }
  return std::move(s).build();
}

}  // namespace capstan
