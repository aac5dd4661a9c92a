// SPDX-License-Identifier: Apache-2.0

// Ring all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
//
// 2(p-1) steps, 2(p-1)/p·n elements sent per rank, (p-1)·ceil(n/p) scratch.
//
//   p = 3, blocks A B C; the partial sum of a block moves one rank to the right at each step
//   rank 0   A..  ─►  rank 1   AB.  ─►  rank 2  has the sum of A: it owns it, and passes it on

#include "algorithms/all_reduce/all_reduce.hpp"

namespace capstan {

Schedule ring_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const Rank next = group.right(), prev = group.left();
  const auto block = [&](int i) { return nth_block(count, p, group.wrap(i)); };

  // Reduce-scatter: at step k rank r passes on its partial sum of block r-k, and adds its own
  // share to the partial sum of block r-k-1 that arrives from the left. Rank r ends up with the
  // sum of block r+1. One landing per step, so that the left neighbour needs no credits.
  for (int k = 0; k + 1 < p; ++k) {
    const Range outgoing = block(self - k), incoming = block(self - k - 1);
    const Span landing = s.scratch(block(0).length);
    s.send(next, landing.first(outgoing.length), k == 0 ? s.input(outgoing) : s.output(outgoing));
    s.wait(prev);
    const Span sources[] = {landing.first(incoming.length), s.input(incoming)};
    if (k + 2 < p)
      s.reduce(s.output(incoming), sources);
    else
      s.complete(s.output(incoming), sources);
  }

  // All-gather: each sum travels once round the ring, straight into place. The right neighbour has
  // entered the call by then: its own contribution has come all the way round.
  for (int k = 0; k + 1 < p; ++k) {
    const Range outgoing = block(self + 1 - k);
    s.send(next, s.output(outgoing), s.output(outgoing));
    s.wait(prev);
  }
  return std::move(s).build();
}

}  // namespace capstan
