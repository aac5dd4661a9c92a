// SPDX-License-Identifier: Apache-2.0

// Direct reduce-scatter: everybody sends block r to rank r, which adds up in the order of ranks.
//
// 1 step, (p-1)·n elements sent and p·n read per rank (n being a block), p·n scratch.

#include <vector>

#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {

Schedule direct_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int p = group.size(), self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) contributions.push_back(s.scratch(blocks.largest()));
  for (int d = 1; d < p; ++d) {
    const Range theirs = blocks[group.wrap(self + d)];
    s.send(group.right(d), contributions[self].first(theirs.length), s.input(theirs));
  }

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  for (Span& contribution : contributions) contribution = contribution.first(blocks[self].length);
  contributions[self] = s.input(blocks[self]);
  s.complete(s.output(), contributions);
  return std::move(s).build();
}

}  // namespace capstan
