// SPDX-License-Identifier: Apache-2.0

// Broadcast by rendezvous: direct, but for the root's own block, which the root writes to where the
// others want it while they fetch theirs.
//
// 3 steps, the first of which only says who is there; about 2·(p-1)/p·n elements sent by the root
// and (p-2)/p·n by the others, (1+1/p)·n scratch. Where peers can use each other's buffers, every
// rank moves (p-1)/p·n elements; in the direct one the others move n each, while the root waits.
//
//   phase 0   the root sends block j to rank j; the others tell the root that they are there
//   phase 1   the root sends its block to all, everybody else sends its own to all but the root
//   phase 2   have all blocks

#include "algorithms/broadcast/broadcast.hpp"
#include "capstan/blocks.hpp"

namespace capstan {
namespace {

void send_blocks(ScheduleBuilder& s, const Group& group, const Blocks& blocks) {
  const int p = group.size(), root = group.position();
  const Span scattered = s.scratch(blocks.largest());
  s.scratch(blocks.total());  // where the others gather
  for (int d = 1; d < p; ++d) {
    const int to = group.wrap(root + d);
    s.send(group[to], scattered.first(blocks[to].length), s.input(blocks[to]));
  }

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  for (int d = 1; d < p; ++d) s.send(group.right(d), s.output(blocks[root]), s.input(blocks[root]));
  s.copy(s.output(), s.input());
  s.next_phase();
}

void fetch_blocks(ScheduleBuilder& s, const Group& group, int root, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  const Span scattered = s.scratch(blocks.largest()), gathered = s.scratch(blocks.total());
  s.signal(group[root]);

  s.next_phase();
  s.wait(group[root]);
  s.copy(s.output(blocks[self]), scattered.first(blocks[self].length));
  for (int d = 1; d < p; ++d)
    if (const int to = group.wrap(self + d); to != root)
      s.send(group[to], gathered.part(blocks[self]), s.output(blocks[self]));

  s.next_phase();
  for (int d = 1; d < p; ++d) {
    const int from = group.wrap(self + d);
    s.wait(group[from]);
    if (from != root) s.copy(s.output(blocks[from]), gathered.part(blocks[from]));
  }
}

}  // namespace

Schedule rendezvous_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Blocks blocks = Blocks::even(group.size(), count);
  if (group.position() == root)
    send_blocks(s, group, blocks);
  else
    fetch_blocks(s, group, root, blocks);
  return std::move(s).build();
}

}  // namespace capstan
