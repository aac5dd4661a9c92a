// SPDX-License-Identifier: Apache-2.0

// Binomial tree broadcast.
//
// ceil(log2 p) steps; the root sends n·ceil(log2 p) elements; n scratch. For small messages on many
// ranks.

#include "algorithms/broadcast/broadcast.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule binomial_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  broadcast_from_input(s, binomial_place(group, root));
  return std::move(s).build();
}

}  // namespace capstan
