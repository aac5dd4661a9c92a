// SPDX-License-Identifier: Apache-2.0

// Rabenseifner's all-reduce ("Optimization of collective reduction operations", 2004): reduce-
// scatter by recursive halving, then all-gather by recursive doubling.
//
// 2·log2(p) steps, 2(p-1)/p·n elements sent per rank, about n scratch; sizes that are not a power
// of two are folded (two steps and 2n elements more). For medium and large messages.
//
//   p = 4, blocks 0123:   halving                       doubling
//     rank 0  0123 ─► 01.. ─► 0...          0... ─► 01.. ─► 0123
//     rank 1  0123 ─► 01.. ─► .1..          .1.. ─► 01.. ─► 0123
//     rank 2  0123 ─► ..23 ─► ..2.          ..2. ─► ..23 ─► 0123
//     rank 3  0123 ─► ..23 ─► ...3          ...3 ─► ..23 ─► 0123

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/power_of_two.hpp"

namespace capstan {
namespace {

/// The elements of blocks [first, first + blocks) of `count` elements cut into `total` blocks.
Range block_range(Elements count, int total, int first, int blocks) {
  const Elements begin = nth_block(count, total, first).offset;
  return {begin, nth_block(count, total, first + blocks - 1).end() - begin};
}

}  // namespace

Schedule rabenseifner_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const PowerOfTwoFold fold{group};
  const int id = fold.id();
  // The blocks that `who` holds while partners at distance `distance` exchange.
  const auto held = [&](int who, int distance) {
    return block_range(count, fold.size(), who & ~(distance - 1), distance);
  };

  Span sum = fold.gather(s, s.scratch(count), s.output());
  for (int distance = fold.size() / 2; distance >= 1; distance /= 2) {
    const Span landing = s.scratch(held(0, distance).length);
    if (fold.sits_out()) continue;
    const Rank peer = fold.member(id ^ distance);
    const Range keep = held(id, distance), give = held(id ^ distance, distance);
    s.send(peer, landing.first(give.length), sum.part(give));
    s.wait(peer);
    const bool lower = (id & distance) == 0;
    const Span mine = sum.part(keep), theirs = landing.first(keep.length);
    const Span sources[] = {lower ? mine : theirs, lower ? theirs : mine};
    if (distance > 1)
      s.reduce(s.output(keep), sources);
    else
      s.complete(s.output(keep), sources);
    sum = s.output();
  }

  for (int distance = 1; distance < fold.size() && !fold.sits_out(); distance *= 2) {
    const Rank peer = fold.member(id ^ distance);
    const Range have = held(id, distance);
    s.send(peer, s.output(have), s.output(have));
    s.wait(peer);
  }
  fold.scatter(s);
  return std::move(s).build();
}

}  // namespace capstan
