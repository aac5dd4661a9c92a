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

Cost chain_reduce_cost(const Hosts& hosts, Elements count) {
  const double n = static_cast<double>(count.value());
  const double others = hosts.ranks() - 1;
  return {.steps = others, .sent = n, .reduced = 2 * n, .depth = others};
}

}  // namespace capstan
