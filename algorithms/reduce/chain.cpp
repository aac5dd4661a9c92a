// SPDX-License-Identifier: Apache-2.0

// Chain reduce: the partial sum travels from the far end of a chain to the root.
//
// p-1 steps, n elements sent and 2n read per rank, 2n scratch. A long message is a stream of blocks
// that follow one another: see chain broadcast.

#include "algorithms/reduce/reduce.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule chain_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Span sum = s.scratch(count);
  reduce_up(s, chain_place(group, root), {Elements{0}, count}, 1, sum);
  return std::move(s).build();
}

}  // namespace capstan
