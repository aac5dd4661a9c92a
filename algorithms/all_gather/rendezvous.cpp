// SPDX-License-Identifier: Apache-2.0

// All-gather by rendezvous: as soon as all ranks have entered, everybody writes its block to where
// the others want it.
//
// 2 steps, the first of which sends nothing, (p-1)·n elements sent per rank (n being a block), no
// scratch. A block is read once, where in the direct one every receiver reads it.
//
//   phase 0   tell everybody that I am there
//   phase 1   send my block to all
//   phase 2   have all blocks

#include "algorithms/all_gather/all_gather.hpp"

namespace capstan {

Schedule rendezvous_all_gather(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  for (int d = 1; d < p; ++d) s.signal(group.right(d));

  s.next_phase();
  s.copy(s.output(blocks[self]), s.input());
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  for (int d = 1; d < p; ++d) s.send(group.right(d), s.output(blocks[self]), s.input());

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  return std::move(s).build();
}

}  // namespace capstan
