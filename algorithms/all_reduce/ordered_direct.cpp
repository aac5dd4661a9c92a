// SPDX-License-Identifier: Apache-2.0

// Direct all-reduce whose results cross to each other host once: each rank adds up one block of
// what all ranks gave, in the order of ranks, and its counterparts hand the sum to their hosts.
//
// 3 steps, of which 2 cross the network. With h hosts of l ranks, a host sends (h-1)/h·(l+1)·n
// elements to others, where the direct algorithm sends (h-1)/h·2·l·n. p·ceil(n/p) scratch. For long
// messages whose bits must not depend on hosts, of numbers that round whenever a sum is stored. For
// any numbers of ranks per host.
//
//   phase 0   send block j of my input to rank j
//   phase 1   add up my block, send the sum to all of my host and to my counterpart on each other
//   phase 2   send the sums that come from other hosts to all of my host; have all sums
//
// Data of the own host are awaited in the phase that sends them, those from the network one phase
// later, so that the next block's sums overlap them.

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {
namespace {

void wait_for_row(ScheduleBuilder& s, const Group& group, const std::vector<int>& row) {
  for (std::size_t i = 1; i < row.size(); ++i) s.wait(group[row[i]]);
}

/// The blocks that come to `position` from other hosts, sent on to the ranks of its host.
void forward(ScheduleBuilder& s, const Group& group, const Counterparts& counterparts,
             const std::vector<Range>& blocks) {
  const auto& row = counterparts.row();
  const auto served = counterparts.served_by(group.position());
  for (const int block : served) s.wait(group[block]);
  if (served.empty()) return;
  for (std::size_t i = 1; i < row.size(); ++i) {
    for (const int block : served) {
      const Span sum = s.output(blocks[static_cast<std::size_t>(block)]);
      s.put(group[row[i]], sum, sum);
    }
    s.signal(group[row[i]]);
  }
}

}  // namespace

Schedule ordered_direct_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const Counterparts counterparts{group};
  const auto& row = counterparts.row();
  std::vector<Range> blocks;
  std::vector<Span> contributions;
  for (int i = 0; i < p; ++i) {
    blocks.push_back(nth_block(count, p, i));
    contributions.push_back(s.scratch(blocks.front().length));
  }
  const auto own = static_cast<std::size_t>(self);

  for (int d = 1; d < p; ++d) {
    const Range theirs = blocks[static_cast<std::size_t>(group.wrap(self + d))];
    s.send(group.right(d), contributions[own].first(theirs.length), s.input(theirs));
  }

  wait_for_row(s, group, row);

  s.next_phase();
  for (int i = 0; i < p; ++i)
    if (counterparts.host_of(i) != counterparts.host()) s.wait(group[i]);
  for (Span& contribution : contributions) contribution = contribution.first(blocks[own].length);
  contributions[own] = s.input(blocks[own]);
  const Span sum = s.output(blocks[own]);
  s.complete(sum, contributions);
  // Every peer has sent, so it has entered the call and no longer reads what is overwritten here.
  for (int host = 0; host < counterparts.hosts(); ++host)
    if (host != counterparts.host()) s.send(group[counterparts.of(self, host)], sum, sum);
  for (std::size_t i = 1; i < row.size(); ++i) s.send(group[row[i]], sum, sum);
  wait_for_row(s, group, row);

  s.next_phase();
  forward(s, group, counterparts, blocks);
  for (std::size_t i = 1; i < row.size(); ++i)
    if (!counterparts.served_by(row[i]).empty()) s.wait(group[row[i]]);
  return std::move(s).build();
}

}  // namespace capstan
