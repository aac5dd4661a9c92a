// SPDX-License-Identifier: Apache-2.0

// Two-level reduce: each host's ranks add up a slice each, and send its sum to the rank of the
// root's host that adds up this slice for all hosts and hands it to the root.
//
// 3 steps, of which 1 crosses the network. Each host but the root's sends n elements to others, the
// least there can be, all its ranks at once (n/l each, with l ranks on the root's host). A rank
// reads up to n + h·n/l elements; (l+h/l+1)·n scratch with l ranks on the largest host. For long
// messages, which follow one another as a stream of blocks; for any numbers of ranks per host.

#include "algorithms/two_level.hpp"

#include <vector>

#include "algorithms/reduce/reduce.hpp"

namespace capstan {

Schedule two_level_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Counterparts counterparts{group};
  const int self = group.position(), host = counterparts.host(),
            root_host = counterparts.host_of(root);
  // The k-th of these adds up slice k; on other hosts that is their counterparts' business.
  const auto& owners = counterparts.on(root_host);
  const int slices = static_cast<int>(owners.size());
  const auto slice = [&](int k) { return nth_block(count, slices, k); };
  const auto slices_of = [&](int position) {
    std::vector<int> numbers;
    for (int k = 0; k < slices; ++k)
      if (counterparts.of(owners[static_cast<std::size_t>(k)], host) == position)
        numbers.push_back(k);
    return numbers;
  };
  std::vector<Span> contributions, sums;  // by place within the host; by host
  for (int i = 0; i < counterparts.largest_host(); ++i) contributions.push_back(s.scratch(count));
  for (int i = 0; i < counterparts.hosts(); ++i) sums.push_back(s.scratch(slice(0).length));
  const Span partial = s.scratch(count);
  const auto landing_of = [&](int position) {
    return contributions[static_cast<std::size_t>(counterparts.place(position))];
  };

  const auto &row = counterparts.row(), own = slices_of(self);
  for (std::size_t i = 1; i < row.size(); ++i) {
    const auto theirs = slices_of(row[i]);
    for (const int k : theirs)
      s.put(group[row[i]], landing_of(self).part(slice(k)), s.input(slice(k)));
    if (!theirs.empty()) s.signal(group[row[i]]);
  }
  for (std::size_t i = 1; i < row.size() && !own.empty(); ++i) s.wait(group[row[i]]);
  const auto contributions_to = [&](int k) {
    std::vector<Span> sources;
    for (const int from : row)
      sources.push_back((from == self ? s.input() : landing_of(from)).part(slice(k)));
    return sources;
  };

  if (host != root_host) {
    for (const int k : own) {
      const Rank owner = group[owners[static_cast<std::size_t>(k)]];
      if (row.size() > 1) s.reduce(partial.part(slice(k)), contributions_to(k));
      s.send(owner, sums[static_cast<std::size_t>(host)].first(slice(k).length),
             (row.size() > 1 ? partial : s.input()).part(slice(k)));
    }
    return std::move(s).build();
  }

  const Range mine = slice(own.front());
  auto sources = contributions_to(own.front());
  for (int other = 0; other < counterparts.hosts(); ++other) {
    if (other == host) continue;
    s.wait(group[counterparts.of(self, other)]);
    sources.push_back(sums[static_cast<std::size_t>(other)].first(mine.length));
  }
  if (self != root) {
    s.complete(partial.part(mine), sources);
    s.send(group[root], s.output(mine), partial.part(mine));  // which has sent its share of it
    return std::move(s).build();
  }
  s.complete(s.output(mine), sources);
  for (std::size_t i = 1; i < row.size(); ++i) s.wait(group[row[i]]);
  return std::move(s).build();
}

}  // namespace capstan
