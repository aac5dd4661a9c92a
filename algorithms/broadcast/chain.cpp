// SPDX-License-Identifier: Apache-2.0

// Chain broadcast: each rank passes on what it gets to the next.
//
// p-1 steps, n elements sent per rank, n scratch. A long message is a stream of blocks that follow
// one another down the chain: the time of p-1+b steps of one of b blocks, which for many blocks is
// that of sending the message once.

#include "algorithms/broadcast/broadcast.hpp"
#include "algorithms/tree.hpp"

namespace capstan {

Schedule chain_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  broadcast_from_input(s, chain_place(group, root));
  return std::move(s).build();
}

}  // namespace capstan
