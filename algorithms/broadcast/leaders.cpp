// SPDX-License-Identifier: Apache-2.0

// Broadcast by leaders: the root sends to one rank of each other host, and each of these, as the
// root, to the ranks of its own.
//
// 2 steps, of which 1 crosses the network; the root sends (h-1)·n elements to h-1 other hosts; n
// scratch.

#include "algorithms/broadcast/broadcast.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_broadcast(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Leaders hosts{group, root};
  const Span landing = s.scratch(count);
  const bool is_root = group.position() == root;
  if (!is_root) s.wait(hosts.leads() ? group[root] : hosts.leader());
  const Span data = is_root ? s.input() : landing;
  if (is_root)
    for (const Rank leader : hosts.leaders())
      if (leader != group.self()) s.send(leader, landing, data);
  for (const Rank follower : hosts.followers()) s.send(follower, landing, data);
  s.copy(s.output(), data);
  return std::move(s).build();
}

}  // namespace capstan
