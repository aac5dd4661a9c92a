// SPDX-License-Identifier: Apache-2.0

// Direct all-gather: everybody sends its block to everybody.
//
// 1 step, (p-1)·n elements sent per rank (n being a block), p·n scratch. Where memory is shared a
// block is written once and read by all.

#include "algorithms/all_gather/all_gather.hpp"

namespace capstan {

Schedule direct_all_gather(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Span landing = s.scratch(blocks.total());
  for (int d = 1; d < p; ++d) s.send(group.right(d), landing.part(blocks[self]), s.input());

  s.next_phase();
  s.copy(s.output(blocks[self]), s.input());
  for (int d = 1; d < p; ++d) {
    const Range block = blocks[group.wrap(self + d)];
    s.wait(group.right(d));
    s.copy(s.output(block), landing.part(block));
  }
  return std::move(s).build();
}

}  // namespace capstan
