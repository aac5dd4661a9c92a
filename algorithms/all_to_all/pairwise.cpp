// SPDX-License-Identifier: Apache-2.0

// Pairwise all-to-all: at step k each rank sends to the one k to its right and receives from the
// one k to its left, so that nobody is sent to by two at once.
//
// p-1 steps, (p-1)·n elements sent per rank (n being a block), p·n scratch. For long blocks.

#include "algorithms/all_to_all/all_to_all.hpp"

namespace capstan {

Schedule pairwise_all_to_all(const Group& group, const AllToAllBlocks& exchange) {
  const int p = group.size(), self = group.position();
  const Blocks input = exchange.input(self), output = exchange.output(self);
  ScheduleBuilder s{group, input.total(), output.total()};
  const Span landing = s.scratch(exchange.largest_output());
  for (int k = 1; k < p; ++k) {
    const int to = group.wrap(self + k);
    s.send(group[to], landing.part(exchange.place(self, to)), s.input(input[to]));
    s.wait(group.left(k));
  }
  s.copy(s.output(output[self]), s.input(input[self]));
  for (int k = 1; k < p; ++k) {
    const Range block = output[group.wrap(self - k)];
    s.copy(s.output(block), landing.part(block));
  }
  return std::move(s).build();
}

}  // namespace capstan
