// SPDX-License-Identifier: Apache-2.0

// Bruck's all-to-all (Bruck et al., "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", 1997): a block that has to go d ranks to the right hops along
// the bits of d. Nothing is rotated or packed: the schedule knows where each block stands.
//
// ceil(log2 p) steps, p/2·n elements sent per rank and step (n being a block), as much scratch. For
// tiny blocks on many ranks; all blocks are equally long.

#include <vector>

#include "algorithms/all_to_all/all_to_all.hpp"

namespace capstan {

Schedule bruck_all_to_all(const Group& group, const AllToAllBlocks& exchange) {
  const int p = group.size(), self = group.position();
  const Blocks blocks = exchange.input(self);
  ScheduleBuilder s{group, blocks.total(), blocks.total()};
  // Where the block stands that has d more ranks to go, or has arrived from d to the left.
  std::vector<Span> blocks_by_way;
  for (int d = 0; d < p; ++d) blocks_by_way.push_back(s.input(blocks[group.wrap(self + d)]));

  for (int bit = 1; bit < p; bit *= 2) {
    std::vector<std::pair<int, Span>> hops;
    for (int d = bit; d < p; ++d)
      if ((d & bit) != 0) hops.emplace_back(d, s.scratch(blocks.largest()));
    for (const auto& [d, landing] : hops)
      s.put(group.right(bit), landing, blocks_by_way[static_cast<std::size_t>(d)]);
    s.signal(group.right(bit));
    s.wait(group.left(bit));
    for (const auto& [d, landing] : hops) blocks_by_way[static_cast<std::size_t>(d)] = landing;
  }
  for (int d = 0; d < p; ++d)
    s.copy(s.output(blocks[group.wrap(self - d)]), blocks_by_way[static_cast<std::size_t>(d)]);
  return std::move(s).build();
}

}  // namespace capstan
