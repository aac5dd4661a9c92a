// SPDX-License-Identifier: Apache-2.0

// Rabenseifner's reduce ("Optimization of collective reduction operations", 2004): reduce-scatter
// by recursive halving, then the blocks come to the root along the same exchanges.
//
// 2·log2(p) steps, about 2n elements sent and 2n read per rank at most, about 2n scratch; sizes
// that are not a power of two are folded. For long messages.

#include "algorithms/power_of_two.hpp"
#include "algorithms/reduce/reduce.hpp"
#include "capstan/blocks.hpp"

namespace capstan {

Schedule rabenseifner_reduce(const Group& group, int root, Elements count) {
  ScheduleBuilder s{group, count, count};
  const PowerOfTwoFold fold{group};
  const Blocks blocks = Blocks::even(fold.size(), count);
  const Span partial = s.scratch(count), folded = s.scratch(count);
  const int id = fold.id(), root_id = PowerOfTwoFold::id_of(group, root);
  // The blocks that `who` holds while partners at distance `distance` exchange.
  const auto held = [&](int who, int distance) {
    return blocks.range(who & ~(distance - 1), distance);
  };

  Span sum = fold.gather(s, folded, partial);
  for (int distance = fold.size() / 2; distance >= 1; distance /= 2) {
    const Span landing = s.scratch(held(0, distance).length);
    if (fold.sits_out()) continue;
    const Rank peer = fold.member(id ^ distance);
    const Range keep = held(id, distance), give = held(id ^ distance, distance);
    s.send(peer, landing.first(give.length), sum.part(give));
    s.wait(peer);
    const Span sources[] = {sum.part(keep), landing.first(keep.length)};
    if (distance > 1)
      s.reduce(partial.part(keep), sources);
    else
      s.complete(partial.part(keep), sources);
    sum = partial;
  }

  // In each exchange, the rank farther from the root sends its blocks to its peer and is done. The
  // peer sent these blocks away before, so that their place in its `partial` is free.
  const int way = id ^ root_id;
  for (int distance = 1; distance < fold.size() && !fold.sits_out(); distance *= 2) {
    if ((way & (distance - 1)) != 0) break;  // handed over already
    const Rank peer = fold.member(id ^ distance);
    const Span blocks_held = partial.part(held(id, distance));
    if ((way & distance) != 0)
      s.send(peer, blocks_held, blocks_held);
    else
      s.wait(peer);
  }
  const bool has_all = !fold.sits_out() && id == root_id, is_root = group.position() == root;
  if (has_all && is_root) s.copy(s.output(), partial);
  if (has_all && !is_root) s.send(group[root], s.output(), partial);
  if (is_root && !has_all) s.wait(fold.partner());
  return std::move(s).build();
}

}  // namespace capstan
