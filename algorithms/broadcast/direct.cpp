// SPDX-License-Identifier: Apache-2.0

// Direct broadcast: scatter and all-gather, each in one step (the two phases of van de Geijn's
// broadcast among all pairs).
//
// 2 steps, about n elements sent by the root and (p-1)/p·n by the others, 2n scratch. Where peers
// can read each other's buffers, nobody is read by all: the root's memory is not the bottleneck.
//
//   phase 0   the root sends block j to rank j
//   phase 1   everybody sends its block to all but the root
//   phase 2   have all blocks

#include "algorithms/broadcast/broadcast.hpp"
#include "capstan/blocks.hpp"

namespace capstan {

Schedule direct_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const Blocks blocks = Blocks::even(p, count);
  const Span scattered = s.scratch(blocks.largest()), gathered = s.scratch(count);
  for (int d = 1; d < p && self == root; ++d) {
    const int to = group.wrap(root + d);
    s.send(group[to], scattered.first(blocks[to].length), s.input(blocks[to]));
  }
  s.next_phase();
  if (self == root) {
    s.copy(s.output(), s.input());
  } else {
    s.wait(group[root]);
    s.copy(s.output(blocks[self]), scattered.first(blocks[self].length));
  }
  const Span own = self == root ? s.input(blocks[self]) : s.output(blocks[self]);
  for (int d = 1; d < p; ++d)
    if (const int to = group.wrap(self + d); to != root)
      s.send(group[to], gathered.part(blocks[self]), own);
  s.next_phase();
  for (int d = 1; d < p && self != root; ++d) {
    const int from = group.wrap(self + d);
    s.wait(group[from]);
    s.copy(s.output(blocks[from]), gathered.part(blocks[from]));
  }
  return std::move(s).build();
}

}  // namespace capstan
