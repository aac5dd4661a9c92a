// SPDX-License-Identifier: Apache-2.0

// Barrier by leaders: each host's ranks tell its first one, these tell each other, and then theirs.
//
// 3 steps, of which 1 crosses the network, with a message to each other host.

#include "algorithms/barrier/barrier.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_barrier(const Group& group) {
  ScheduleBuilder s{group, Elements{0}, Elements{0}};
  const Leaders hosts{group, 0};
  if (!hosts.leads()) {
    s.signal(hosts.leader());
    s.wait(hosts.leader());
    return std::move(s).build();
  }
  for (const Rank follower : hosts.followers()) s.wait(follower);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self()) s.signal(peer);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self()) s.wait(peer);
  for (const Rank follower : hosts.followers()) s.signal(follower);
  return std::move(s).build();
}

}  // namespace capstan
