// SPDX-License-Identifier: Apache-2.0

// Two-level all-to-all: what the ranks of a host have for a rank of another is collected by its
// counterpart, which sends it in one message.
//
// 2 steps, of which 1 crosses the network: a message of l·n elements (n being a block) to one rank
// of each other host, with l ranks on each, where the direct algorithm sends l messages of n. Each
// rank sends (p-1)·n elements within its host and (h-1)·l·n to others, the least there can be;
// h·p·n scratch. For short blocks, on any numbers of ranks per host.
//
//   phase 0   within the host: send each rank what is for it and for those whose counterpart it is;
//             send the ranks of other hosts what has been collected for them
//   phase 1   have all blocks

#include "algorithms/two_level.hpp"

#include <vector>

#include "algorithms/all_to_all/all_to_all.hpp"

namespace capstan {

Schedule two_level_all_to_all(const Group& group, const AllToAllBlocks& exchange) {
  const int self = group.position();
  const Blocks input = exchange.input(self), output = exchange.output(self);
  ScheduleBuilder s{group, input.total(), output.total()};
  const Counterparts counterparts{group};
  const auto &row = counterparts.row(), served = counterparts.served_by(self);
  const Span landing = s.scratch(exchange.largest_output());
  std::vector<Span> collected;  // what has the same place in its receiver's output
  for (int i = 0; i < counterparts.most_served(); ++i)
    collected.push_back(s.scratch(exchange.largest_output()));

  for (std::size_t i = 1; i < row.size(); ++i) {
    const int mate = row[i];
    const auto served_there = counterparts.served_by(mate);
    for (std::size_t k = 0; k < served_there.size(); ++k)
      s.put(group[mate], collected[k].part(exchange.place(self, served_there[k])),
            s.input(input[served_there[k]]));
    s.put(group[mate], landing.part(exchange.place(self, mate)), s.input(input[mate]));
    s.signal(group[mate]);
  }
  for (std::size_t i = 1; i < row.size(); ++i) s.wait(group[row[i]]);
  for (std::size_t k = 0; k < served.size(); ++k) {
    const Blocks there = exchange.output(served[k]);
    for (const int from : row)
      s.put(group[served[k]], landing.part(there[from]),
            from == self ? s.input(input[served[k]]) : collected[k].part(there[from]));
    s.signal(group[served[k]]);
  }

  s.next_phase();
  s.copy(s.output(output[self]), s.input(input[self]));
  for (int i = 0; i < counterparts.hosts(); ++i) {
    const int host = (counterparts.host() + i) % counterparts.hosts();
    if (i > 0) s.wait(group[counterparts.of(self, host)]);
    for (const int from : counterparts.on(host))
      if (from != self) s.copy(s.output(output[from]), landing.part(output[from]));
  }
  return std::move(s).build();
}

}  // namespace capstan
