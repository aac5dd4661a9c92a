// SPDX-License-Identifier: Apache-2.0

// Direct reduce: reduce-scatter and gather, each in one step between all pairs (the two phases of
// Rabenseifner's reduce).
//
// 2 steps, at most n elements sent and n read by reductions per rank, (p+1)·ceil(n/p) scratch. All
// ranks add up, where in a flat one the root does it alone.
//
//   phase 0   send block j of my input to rank j
//   phase 1   add up my block, send the sum to the root
//   phase 2   the root has all sums

#include <vector>

#include "algorithms/reduce/reduce.hpp"

namespace capstan {

Schedule direct_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const Blocks blocks = Blocks::even(p, count);
  const Range own = blocks[self];
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) contributions.push_back(s.scratch(blocks.largest()));
  const Span partial = s.scratch(blocks.largest()).first(own.length);

  for (int d = 1; d < p; ++d) {
    const Range theirs = blocks[group.wrap(self + d)];
    s.send(group.right(d), contributions[self].first(theirs.length), s.input(theirs));
  }

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  for (Span& contribution : contributions) contribution = contribution.first(own.length);
  contributions[self] = s.input(own);
  const Span sum = self == root ? s.output(own) : partial;
  s.complete(sum, contributions);
  // The root has sent, so it has entered the call and no longer reads what is overwritten there.
  if (self != root) s.send(group[root], s.output(own), sum);

  s.next_phase();
  for (int d = 1; d < p && self == root; ++d) s.wait(group.right(d));
  return std::move(s).build();
}

}  // namespace capstan
