// SPDX-License-Identifier: Apache-2.0

// Direct all-reduce: reduce-scatter and all-gather, each in one step among all pairs.
//
// 2 steps, 2(p-1)/p·n elements sent and n read by reductions per rank, p·ceil(n/p) scratch. The
// fewest bytes in the fewest steps that allow it; wants links between all pairs.
//
//   phase 0   send block j of my input to rank j
//   phase 1   add up my block, send the sum to all
//   phase 2   have all sums

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"

namespace capstan {

Schedule direct_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const auto block = [&](int i) { return nth_block(count, p, group.wrap(i)); };
  const Range own = block(self);
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) contributions.push_back(s.scratch(block(0).length));

  for (int d = 1; d < p; ++d) {
    const Range theirs = block(self + d);
    s.send(group.right(d), contributions[self].first(theirs.length), s.input(theirs));
  }

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  for (Span& contribution : contributions) contribution = contribution.first(own.length);
  contributions[self] = s.input(own);
  s.complete(s.output(own), contributions);
  // Every peer has sent, so it has entered the call and no longer reads what is overwritten here.
  for (int d = 1; d < p; ++d) s.put(group.right(d), s.output(own), s.output(own));
  for (int d = 1; d < p; ++d) s.signal(group.right(d));

  s.next_phase();
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  return std::move(s).build();
}

}  // namespace capstan
