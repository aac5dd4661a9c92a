// SPDX-License-Identifier: Apache-2.0

// Gather by leaders: each host's ranks send to its first one, which sends all their blocks to the
// root in one message; the root leads its own host.
//
// 2 steps, of which 1 crosses the network: l·n elements (n being a block) from each other host of l
// ranks; p·n scratch. For short blocks.

#include "algorithms/gather/gather.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_gather(const Group& group, int root, const Blocks& blocks) {
  const int self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Leaders hosts{group, root};
  const Counterparts places{group};
  const Span landing = s.scratch(blocks.total());
  const auto landing_of = [&](int position) { return landing.part(blocks[position]); };
  if (!hosts.leads()) {
    s.send(hosts.leader(), landing_of(self), s.input());
    return std::move(s).build();
  }

  for (const Rank follower : hosts.followers()) s.wait(follower);
  if (self != root) {
    for (const int from : places.row())
      s.put(group[root], landing_of(from), from == self ? s.input() : landing_of(from));
    s.signal(group[root]);
    return std::move(s).build();
  }
  s.copy(s.output(blocks[self]), s.input());
  for (int i = 0; i < places.hosts(); ++i) {
    const int host = (places.host() + i) % places.hosts();
    if (i > 0) s.wait(hosts.leaders()[static_cast<std::size_t>(host)]);
    for (const int from : places.on(host))
      if (from != self) s.copy(s.output(blocks[from]), landing_of(from));
  }
  return std::move(s).build();
}

}  // namespace capstan
