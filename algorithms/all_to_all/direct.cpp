// SPDX-License-Identifier: Apache-2.0

// Direct all-to-all: everybody sends everybody its block.
//
// 1 step, (p-1)·n elements sent per rank (n being a block), p·n scratch.

#include "algorithms/all_to_all/all_to_all.hpp"

namespace capstan {

Schedule direct_all_to_all(const Group& group, const AllToAllBlocks& exchange) {
  const int p = group.size(), self = group.position();
  const Blocks input = exchange.input(self), output = exchange.output(self);
  ScheduleBuilder s{group, input.total(), output.total()};
  const Span landing = s.scratch(exchange.largest_output());
  for (int d = 1; d < p; ++d) {
    const int to = group.wrap(self + d);
    s.send(group[to], landing.part(exchange.place(self, to)), s.input(input[to]));
  }

  s.next_phase();
  s.copy(s.output(output[self]), s.input(input[self]));
  // The left neighbour sends to this rank first.
  for (int d = 1; d < p; ++d) {
    const int from = group.wrap(self - d);
    s.wait(group[from]);
    s.copy(s.output(output[from]), landing.part(output[from]));
  }
  return std::move(s).build();
}

}  // namespace capstan
