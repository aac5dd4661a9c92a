// SPDX-License-Identifier: Apache-2.0

// All-reduce by leaders: each host's ranks send to its first one, these exchange their sums, and
// hand the result back.
//
// 3 steps, of which 1 crosses the network: each of h hosts sends (h-1)·n elements to others, in one
// message each. (l+h)·n scratch with l ranks on the largest host. For short messages.

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Leaders hosts{group, 0};
  std::vector<Span> inputs, sums;
  for (int i = 0; i < hosts.largest_host(); ++i) inputs.push_back(s.scratch(count));
  for (std::size_t i = 0; i < hosts.leaders().size(); ++i) sums.push_back(s.scratch(count));
  const auto own = static_cast<std::size_t>(hosts.host());

  if (!hosts.leads()) {
    s.send(hosts.leader(), inputs[static_cast<std::size_t>(hosts.place())], s.input());
    s.wait(hosts.leader());
    return std::move(s).build();
  }

  for (const Rank follower : hosts.followers()) s.wait(follower);
  inputs.resize(hosts.followers().size());
  inputs.insert(inputs.begin(), s.input());
  const bool alone = hosts.leaders().size() == 1;
  if (alone)
    s.complete(s.output(), inputs);
  else
    s.reduce(sums[own], inputs);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self()) s.send(peer, sums[own], sums[own]);
  for (const Rank peer : hosts.leaders())
    if (peer != group.self()) s.wait(peer);
  if (!alone) s.complete(s.output(), sums);
  for (const Rank follower : hosts.followers()) s.send(follower, s.output(), s.output());
  return std::move(s).build();
}

}  // namespace capstan
