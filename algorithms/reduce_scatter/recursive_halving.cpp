// SPDX-License-Identifier: Apache-2.0

// Reduce-scatter by recursive halving (Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005): partners share what they have left, each keeps one
// half.
//
// log2(p) steps, (p-1)·n elements sent and 2(p-1)·n read per rank (n being a block), 2p·n scratch;
// sizes that are not a power of two are folded (two steps and p·n elements more).

#include <array>

#include "algorithms/circle.hpp"
#include "algorithms/power_of_two.hpp"
#include "algorithms/reduce_scatter/reduce_scatter.hpp"

namespace capstan {

Schedule recursive_halving_reduce_scatter(const Group& group, const Blocks& blocks) {
  const int self = group.position();
  ScheduleBuilder s{group, blocks.total(), blocks[self].length, blocks.largest()};
  const PowerOfTwoFold fold{group};
  const Span partial = s.scratch(blocks.total());
  const int id = fold.id();
  // The blocks that `who` is left with when partners at distance `distance` have exchanged.
  const auto left = [&](int who, int distance) {
    const int first = who & ~(distance - 1);
    return blocks.range(fold.first_position(first), fold.positions(first, distance));
  };

  // Contributions land where the sums are: the sums overwrite them in one pass.
  Span sum = fold.gather(s, partial, partial);
  for (int distance = fold.size() / 2; distance >= 1; distance /= 2) {
    const Span landing = s.scratch(room_for_blocks(blocks, fold.positions(0, distance)));
    if (fold.sits_out()) continue;
    const Rank peer = fold.member(id ^ distance);
    const Range give = left(id ^ distance, distance), keep = left(id, distance);
    s.send(peer, landing.first(give.length), sum.part(give));
    s.wait(peer);
    const auto sources = [&](Range range) {
      return std::array{sum.part(range), landing.part({range.offset - keep.offset, range.length})};
    };
    if (distance > 1) {
      s.reduce(partial.part(keep), sources(keep));
      sum = partial;
      continue;
    }
    s.complete(s.output(), sources(blocks[self]));
    if (!fold.represents()) continue;
    const Range theirs = blocks[self - 1];
    s.complete(partial.part(theirs), sources(theirs));
    s.send(fold.partner(), s.output().first(theirs.length), partial.part(theirs));
  }
  if (fold.sits_out()) s.wait(fold.partner());
  return std::move(s).build();
}

}  // namespace capstan
