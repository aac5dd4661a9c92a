// SPDX-License-Identifier: Apache-2.0

// Two-level all-gather: every block goes to one rank of each other host, which hands it to all
// there.
//
// 2 steps, of which 1 crosses the network. A host of l ranks sends each other host its l blocks,
// the least there can be, a block by each rank; each rank sends (l-1)·n elements (n being a block)
// and what it has got from other hosts within its own; p·n scratch. For any numbers of ranks per
// host.
//
//   phase 0   send my block to all ranks of my host and to my counterpart on each other host
//   phase 1   have those of my host; send what comes from other hosts to all of my host
//   phase 2   have all blocks

#include "algorithms/two_level.hpp"

#include "algorithms/all_gather/all_gather.hpp"

namespace capstan {

Schedule two_level_all_gather(const Group& group, const Blocks& blocks) {
  const int self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const Counterparts counterparts{group};
  const auto &row = counterparts.row(), served = counterparts.served_by(self);
  const Span landing = s.scratch(blocks.total());
  const auto have = [&](int block) {
    s.copy(s.output(blocks[block]), landing.part(blocks[block]));
  };

  for (int host = 0; host < counterparts.hosts(); ++host)
    if (host != counterparts.host())
      s.send(group[counterparts.of(self, host)], landing.part(blocks[self]), s.input());
  for (std::size_t i = 1; i < row.size(); ++i)
    s.send(group[row[i]], landing.part(blocks[self]), s.input());

  s.next_phase();
  s.copy(s.output(blocks[self]), s.input());
  for (std::size_t i = 1; i < row.size(); ++i) {
    s.wait(group[row[i]]);
    have(row[i]);
  }
  for (const int block : served) {
    s.wait(group[block]);
    have(block);
    for (std::size_t i = 1; i < row.size(); ++i)
      s.put(group[row[i]], landing.part(blocks[block]), s.output(blocks[block]));
  }
  for (std::size_t i = 1; i < row.size() && !served.empty(); ++i) s.signal(group[row[i]]);

  s.next_phase();
  for (std::size_t i = 1; i < row.size(); ++i) {
    const auto arriving = counterparts.served_by(row[i]);
    if (!arriving.empty()) s.wait(group[row[i]]);
    for (const int block : arriving) have(block);
  }
  return std::move(s).build();
}

}  // namespace capstan
