// SPDX-License-Identifier: Apache-2.0

// Two-level reduce-scatter: sums within each host, then one of these between each two hosts for
// every block, sent by all ranks of a host at once.
//
// 2 steps, of which 1 crosses the network. A host sends one sum of each block that belongs
// elsewhere, the least there can be: (h-1)/h·N elements of N with h equal hosts, of l ranks each.
// Each rank sends (p-1)·n elements (n being a block), fewer than n·h of them to other hosts, and
// reads p·n + h·n; l·p·n scratch. For long messages, on any numbers of ranks per host.
//
//   phase 0   within the host: send each rank the blocks of those whose counterpart it is; add up
//             the blocks of mine, send them their sums
//   phase 1   add up the sums of my block

#include "algorithms/two_level.hpp"

#include <vector>

#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {

Schedule two_level_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int self = group.position();
  const Range own = blocks[self];
  ScheduleBuilder s{group, blocks.total(), own.length};
  const Counterparts counterparts{group};
  const auto &row = counterparts.row(), served = counterparts.served_by(self);
  std::vector<Span> contributions, sums;  // by place within the host; by host
  for (int i = 0; i < counterparts.largest_host(); ++i)
    contributions.push_back(s.scratch(blocks.total()));
  for (int i = 0; i < counterparts.hosts(); ++i) sums.push_back(s.scratch(blocks.largest()));
  const Span partial = s.scratch(blocks.total());
  const auto landing_of = [&](int position) {
    return contributions[static_cast<std::size_t>(counterparts.place(position))];
  };

  for (std::size_t i = 1; i < row.size(); ++i) {
    auto blocks_there = counterparts.served_by(row[i]);
    blocks_there.push_back(row[i]);
    for (const int block : blocks_there)
      s.put(group[row[i]], landing_of(self).part(blocks[block]), s.input(blocks[block]));
    s.signal(group[row[i]]);
  }
  for (std::size_t i = 1; i < row.size(); ++i) s.wait(group[row[i]]);
  const auto contributions_to = [&](int block) {
    std::vector<Span> sources;
    for (const int from : row)
      sources.push_back((from == self ? s.input() : landing_of(from)).part(blocks[block]));
    return sources;
  };
  const bool shares = row.size() > 1, alone = counterparts.hosts() == 1;
  for (const int block : served) {
    if (shares) s.reduce(partial.part(blocks[block]), contributions_to(block));
    s.send(group[block],
           sums[static_cast<std::size_t>(counterparts.host())].first(blocks[block].length),
           (shares ? partial : s.input()).part(blocks[block]));
  }
  if (alone)
    s.complete(s.output(), contributions_to(self));
  else if (shares)
    s.reduce(s.output(), contributions_to(self));

  s.next_phase();
  if (!alone) {
    for (Span& sum : sums) sum = sum.first(own.length);
    for (int host = 0; host < counterparts.hosts(); ++host)
      if (host != counterparts.host()) s.wait(group[counterparts.of(self, host)]);
    sums[static_cast<std::size_t>(counterparts.host())] = shares ? s.output() : s.input(own);
    s.complete(s.output(), sums);
  }
  return std::move(s).build();
}

}  // namespace capstan
