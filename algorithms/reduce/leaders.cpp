// SPDX-License-Identifier: Apache-2.0

// Reduce by leaders: each host's ranks send to its first one, which sends the sum to the root; the
// root leads its own host.
//
// 2 steps, of which 1 crosses the network, with n elements from each other host in one message. The
// root reads (l+h-1)·n elements, with as much scratch, for l ranks on the largest of h hosts. For
// short messages.

#include <vector>

#include "algorithms/reduce/reduce.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {

Schedule leaders_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Leaders hosts{group, root};
  std::vector<Span> inputs, sums;
  for (int i = 1; i < hosts.largest_host(); ++i) inputs.push_back(s.scratch(count));
  for (std::size_t i = 0; i < hosts.leaders().size(); ++i) sums.push_back(s.scratch(count));
  const Span partial = s.scratch(count);

  if (!hosts.leads()) {
    s.send(hosts.leader(), inputs[static_cast<std::size_t>(hosts.place())], s.input());
    return std::move(s).build();
  }
  for (const Rank follower : hosts.followers()) s.wait(follower);
  inputs.resize(hosts.followers().size());
  inputs.insert(inputs.begin(), s.input());
  if (group.position() != root) {
    if (inputs.size() > 1) s.reduce(partial, inputs);
    s.send(group[root], sums[static_cast<std::size_t>(hosts.host())],
           inputs.size() > 1 ? partial : s.input());
    return std::move(s).build();
  }
  for (std::size_t host = 0; host < sums.size(); ++host) {
    if (static_cast<int>(host) == hosts.host()) continue;
    s.wait(hosts.leaders()[host]);
    inputs.push_back(sums[host]);
  }
  s.complete(s.output(), inputs);
  return std::move(s).build();
}

}  // namespace capstan
