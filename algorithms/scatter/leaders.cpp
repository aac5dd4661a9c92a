// SPDX-License-Identifier: Apache-2.0

// Scatter by leaders: the root sends the blocks of a host to its first rank in one message, which
// hands them on; the root leads its own host.
//
// 2 steps, of which 1 crosses the network: l·n elements (n being a block) to each other host of l
// ranks; p·n scratch. For short blocks.

#include "algorithms/scatter/scatter.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_scatter(const Group& group, int root, const Blocks& blocks) {
  const int self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length};
  const Leaders hosts{group, root};
  const Counterparts places{group};
  const Span landing = s.scratch(blocks.total());
  const auto landing_of = [&](int position) { return landing.part(blocks[position]); };
  const bool is_root = self == root;

  if (!is_root) s.wait(hosts.leads() ? group[root] : hosts.leader());
  for (int host = 0; host < places.hosts() && is_root; ++host) {
    if (host == places.host()) continue;
    const Rank leader = hosts.leaders()[static_cast<std::size_t>(host)];
    for (const int to : places.on(host)) s.put(leader, landing_of(to), s.input(blocks[to]));
    s.signal(leader);
  }
  for (const int to : places.row())
    if (hosts.leads() && to != self)
      s.send(group[to], landing_of(to), is_root ? s.input(blocks[to]) : landing_of(to));
  s.copy(s.output(), is_root ? s.input(blocks[self]) : landing_of(self));
  return std::move(s).build();
}

}  // namespace capstan
