// SPDX-License-Identifier: Apache-2.0

// Binomial tree reduce.
//
// ceil(log2 p) steps, n elements sent per rank, n·ceil(log2 p) read by the root, as much scratch
// and n for the partial sum. For small messages on many ranks.

#include "algorithms/reduce/reduce.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Span sum = s.scratch(count);
  reduce_up(s, binomial_place(group, root), {Elements{0}, count}, binomial_slots(group.size()),
            sum);
  return std::move(s).build();
}

}  // namespace capstan
