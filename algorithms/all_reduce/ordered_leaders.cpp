// SPDX-License-Identifier: Apache-2.0

// All-reduce by leaders in the order of ranks: each host's ranks send to its first one, these
// exchange what all ranks gave, add it up in the order of ranks, and hand the result back.
//
// 3 steps, of which 1 crosses the network: each of h hosts of l ranks sends (h-1)·l·n elements to
// others. p·n scratch. For short messages whose bits must not depend on hosts.

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {
namespace {

/// Sends what the ranks of this host gave, each row of neighbours in one piece.
void send_contributions(ScheduleBuilder& s, Rank peer, const std::vector<int>& positions,
                        const Span& landing, const std::vector<Span>& contributions) {
  const Elements each = contributions.front().length;
  for (std::size_t first = 0, next = 0; first < positions.size(); first = next) {
    while (next < positions.size() &&
           positions[next] == positions[first] + static_cast<int>(next - first))
      ++next;
    const Range range{each * static_cast<std::uint64_t>(positions[first]), each * (next - first)};
    s.put(peer, landing.part(range), landing.part(range));
  }
  s.signal(peer);
}

}  // namespace

Schedule ordered_leaders_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Leaders hosts{group, 0};
  const Counterparts places{group};
  const auto ranks = static_cast<std::uint64_t>(group.size());
  const Span landing = s.scratch(count * ranks);
  std::vector<Span> contributions;
  for (std::uint64_t i = 0; i < ranks; ++i)
    contributions.push_back(landing.part({count * i, count}));
  const auto self = static_cast<std::size_t>(group.position());

  if (!hosts.leads()) {
    s.send(hosts.leader(), contributions[self], s.input());
    s.wait(hosts.leader());
    return std::move(s).build();
  }

  if (hosts.leaders().size() > 1) s.copy(contributions[self], s.input());
  for (const Rank follower : hosts.followers()) s.wait(follower);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self())
      send_contributions(s, peer, places.on(places.host()), landing, contributions);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self()) s.wait(peer);
  contributions[self] = s.input();
  s.complete(s.output(), contributions);
  for (const Rank follower : hosts.followers()) s.send(follower, s.output(), s.output());
  return std::move(s).build();
}

}  // namespace capstan
