// SPDX-License-Identifier: Apache-2.0

// Recursive doubling: at step k, partners whose positions differ in bit k exchange all they have.
//
// log2(p) steps, n·log2(p) elements sent per rank, n·log2(p) scratch; sizes that are not a power of
// two are folded (two steps and 2n elements more). For small messages.

#include "algorithms/all_reduce/all_reduce.hpp"
#include "algorithms/power_of_two.hpp"

namespace capstan {

Schedule recursive_doubling_all_reduce(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const PowerOfTwoFold fold{group};
  Span sum = fold.gather(s, s.scratch(count), s.output());

  for (int bit = 1; bit < fold.size(); bit <<= 1) {
    const Span landing = s.scratch(count);
    if (fold.sits_out()) continue;
    const Rank peer = fold.member(fold.id() ^ bit);
    s.send(peer, landing, sum);
    s.wait(peer);
    // The lower position comes first on both sides: both get the same bits.
    const bool lower = (fold.id() & bit) == 0;
    const Span sources[] = {lower ? sum : landing, lower ? landing : sum};
    if (bit * 2 < fold.size())
      s.reduce(s.output(), sources);
    else
      s.complete(s.output(), sources);
    sum = s.output();
  }
  fold.scatter(s);
  return std::move(s).build();
}

}  // namespace capstan
