// SPDX-License-Identifier: Apache-2.0

// Scatter and all-gather broadcast (van de Geijn; Barnett et al., "Interprocessor collective
// communication library", 1994): a binomial scatter leaves every rank with one block, which then
// travels round a ring.
//
// ceil(log2 p) + p-1 steps, about 2n elements sent by the root, n by the others, 2n scratch. For
// long messages.

#include "algorithms/broadcast/broadcast.hpp"
#include "algorithms/tree.hpp"
#include "capstan/blocks.hpp"

namespace capstan {

Schedule scatter_all_gather_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.wrap(group.position() - root);  // counted from the root
  const Blocks blocks = Blocks::even(p, count);
  const Span scattered = s.scratch(count), gathered = s.scratch(count);

  // Scatter: whoever heads a subtree gets the blocks of all of it.
  const TreePlace place = binomial_place(group, root);
  if (place.parent) s.wait(*place.parent);
  const Span data = place.parent ? scattered : s.input();
  for (int slot = static_cast<int>(place.children.size()) - 1; slot >= 0; --slot) {
    if (!place.children[static_cast<std::size_t>(slot)]) continue;
    const int child = self + (1 << slot);
    const Range subtree = blocks.range(child, std::min(1 << slot, p - child));
    s.send(*place.children[static_cast<std::size_t>(slot)], scattered.part(subtree),
           data.part(subtree));
  }
  if (self == 0)
    s.copy(s.output(), s.input());
  else
    s.copy(s.output(blocks[self]), scattered.part(blocks[self]));

  // Round the ring. The root has everything, and nothing is sent to it.
  for (int k = 0; k + 1 < p; ++k) {
    const Range outgoing = blocks[group.wrap(self - k)],
                incoming = blocks[group.wrap(self - k - 1)];
    const Span own = (k == 0 || self == 0 ? data : gathered).part(outgoing);
    if (self + 1 < p) s.send(group.right(), gathered.part(outgoing), own);
    if (self == 0) continue;
    s.wait(group.left());
    s.copy(s.output(incoming), gathered.part(incoming));
  }
  return std::move(s).build();
}

}  // namespace capstan
