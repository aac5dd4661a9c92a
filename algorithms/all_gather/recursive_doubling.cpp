// SPDX-License-Identifier: Apache-2.0

// All-gather by recursive doubling: at step k partners whose numbers differ in bit k exchange all
// the blocks that they have.
//
// log2(p) steps, (p-1)·n elements sent per rank (n being a block), p·n scratch; sizes that are not
// a power of two are folded (two steps and p·n elements more). For short blocks.

#include "algorithms/all_gather/all_gather.hpp"
#include "algorithms/power_of_two.hpp"

namespace capstan {

Schedule recursive_doubling_all_gather(const Group& group, const Blocks& blocks) {
  const int self = group.position();
  ScheduleBuilder s{group, blocks[self].length, blocks.total()};
  const PowerOfTwoFold fold{group};
  const Span landing = s.scratch(blocks.total());
  const auto arrive = [&](Rank from, Range range) {
    s.wait(from);
    s.copy(s.output(range), landing.part(range));
  };
  // The blocks that `who` has while partners at distance `distance` exchange.
  const auto held = [&](int who, int distance) {
    const int first = who & ~(distance - 1);
    return blocks.range(fold.first_position(first), fold.positions(first, distance));
  };

  if (fold.sits_out()) {
    s.send(fold.partner(), landing.part(blocks[self]), s.input());
    s.wait(fold.partner());
    return std::move(s).build();
  }
  if (fold.represents()) arrive(fold.partner(), blocks[self - 1]);
  s.copy(s.output(blocks[self]), s.input());
  for (int distance = 1; distance < fold.size(); distance *= 2) {
    const int id = fold.id();
    const Rank peer = fold.member(id ^ distance);
    s.send(peer, landing.part(held(id, distance)), s.output(held(id, distance)));
    arrive(peer, held(id ^ distance, distance));
  }
  fold.scatter(s);
  return std::move(s).build();
}

}  // namespace capstan
