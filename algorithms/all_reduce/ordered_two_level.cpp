// SPDX-License-Identifier: Apache-2.0

// Two-level all-reduce in the order of ranks: sums travel from host to host, each adds what its
// ranks gave, and the result travels back; between hosts all ranks of a host send at once.
//
// 2h steps with h hosts, of which 2(h-1) cross the network. A host sends up to 2n elements to
// others, each of its l ranks a slice of n/l of them. (l+1)·ceil(n/l) scratch. For long messages
// whose bits must not depend on hosts: their blocks follow one another. Needs hosts with equal
// numbers of ranks that follow one another, and is the direct algorithm without.
//
//   phase 0   send slice j of my input to the j-th rank of my host; the first host adds up its
//             slices and sends the sums to the next
//   phase 1   every other host adds its slices to the sums of those before, and sends them to the
//             next host; the last one sends the result back
//   phase 2   have my slice of the result, send it back and to all ranks of my host

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/two_level.hpp"

namespace capstan {
namespace {

/// One row where sums from host to host would not be in the order of ranks.
Grid grid_in_order(const Group& group) {
  const Hosts hosts = group.hosts();
  std::vector<Rank> members;
  bool in_order = true;
  for (int i = 0; i < group.size(); ++i) {
    members.push_back(group[i]);
    in_order = in_order &&
               (i == 0 || hosts.single() || hosts.host_of(group[i - 1]) <= hosts.host_of(group[i]));
  }
  return Grid{in_order ? group : Group{members, group.self()}};
}

}  // namespace

Schedule ordered_two_level_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Grid grid = grid_in_order(group);
  const Group &row = grid.row(), &column = grid.column();
  const int place = row.position(), host = column.position();
  const bool first = host == 0, last = host + 1 == column.size();
  const auto slice = [&](int i) { return nth_block(count, row.size(), row.wrap(i)); };
  const Span own = s.output(slice(place));
  const Span before = s.scratch(slice(0).length).first(own.length);
  const auto arrivals = landings(s, row, slice(0).length);
  std::vector<Span> sources;
  if (!first) sources.push_back(before);
  for (int i = 0; i < row.size(); ++i)
    sources.push_back(i == place ? s.input(slice(place))
                                 : arrivals[static_cast<std::size_t>(i)].first(own.length));
  const auto add_and_send = [&] {
    if (!first) s.wait(column.left());
    if (!last) {
      s.reduce(own, sources);
      s.send(column.right(), before, own);
    } else {
      s.complete(own, sources);
    }
  };

  for (int d = 1; d < row.size(); ++d) {
    const Range theirs = slice(place + d);
    s.send(row.right(d), arrivals[static_cast<std::size_t>(place)].first(theirs.length),
           s.input(theirs));
  }
  wait_for_others(s, row);
  if (first) add_and_send();

  s.next_phase();
  if (!first) add_and_send();
  if (!first && last) s.send(column.left(), own, own);

  s.next_phase();
  if (!last) {
    s.wait(column.right());
    if (!first) s.send(column.left(), own, own);
  }
  for (int d = 1; d < row.size(); ++d) s.send(row.right(d), own, own);
  wait_for_others(s, row);
  return std::move(s).build();
}

}  // namespace capstan
