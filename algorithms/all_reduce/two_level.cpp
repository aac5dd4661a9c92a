// SPDX-License-Identifier: Apache-2.0

// Two-level all-reduce: over shared memory inside each host, over the network between hosts, there
// by all ranks of a host at once.
//
// 4 steps, of which 2 cross the network. With h hosts of l ranks, a host sends 2(h-1)/h·n elements
// to others, the least there can be; each rank sends a part of n/l of them. (h+l)·ceil(n/l)
// scratch. For long messages. Needs hosts with equal numbers of ranks, and is the direct algorithm
// without.
//
//   phase 0   within the host: send slice j of my input to the j-th rank; add up my slice; between
//             hosts: send part k of it to the k-th rank of my column
//   phase 1   add up my part of my slice, send the sum down the column
//   phase 2   have my slice of the result, send it to all ranks of my host; have all slices
//
// Data from the network are awaited one phase later, so that the next block's sums overlap them.

#include "algorithms/two_level.hpp"

#include <vector>

#include "algorithms/all_reduce/all_reduce.hpp"

namespace capstan {

Schedule two_level_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const Grid grid{group};
  const Group &row = grid.row(), &column = grid.column();
  const auto slice = [&](int i) { return nth_block(count, row.size(), i); };
  const Range own = slice(row.position());
  const auto part = [&](int k) {
    const Range inside = nth_block(own.length, column.size(), k);
    return Range{own.offset + inside.offset, inside.length};
  };
  const auto row_landings = landings(s, row, slice(0).length);
  const auto column_landings =
      landings(s, column, nth_block(slice(0).length, column.size(), 0).length);
  const auto position = static_cast<std::size_t>(row.position()),
             host = static_cast<std::size_t>(column.position());

  for (int d = 1; d < row.size(); ++d) {
    const Range theirs = slice(row.wrap(row.position() + d));
    s.send(row.right(d), row_landings[position].first(theirs.length), s.input(theirs));
  }
  wait_for_others(s, row);
  std::vector<Span> contributions;
  for (const Span& landing : row_landings) contributions.push_back(landing.first(own.length));
  contributions[position] = s.input(own);
  if (column.size() == 1)
    s.complete(s.output(own), contributions);
  else
    s.reduce(s.output(own), contributions);
  for (int d = 1; d < column.size(); ++d) {
    const Range theirs = part(column.wrap(column.position() + d));
    s.send(column.right(d), column_landings[host].first(theirs.length), s.output(theirs));
  }

  s.next_phase();
  wait_for_others(s, column);
  const Range mine = part(column.position());
  if (column.size() > 1) {
    std::vector<Span> sums;
    for (const Span& landing : column_landings) sums.push_back(landing.first(mine.length));
    sums[host] = s.output(mine);
    s.complete(s.output(mine), sums);
  }
  for (int d = 1; d < column.size(); ++d) s.send(column.right(d), s.output(mine), s.output(mine));

  s.next_phase();
  wait_for_others(s, column);
  for (int d = 1; d < row.size(); ++d) s.send(row.right(d), s.output(own), s.output(own));
  wait_for_others(s, row);
  return std::move(s).build();
}

}  // namespace capstan
