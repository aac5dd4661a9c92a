// SPDX-License-Identifier: Apache-2.0

// Scan by recursive doubling (Hillis and Steele, "Data parallel algorithms", 1986): after step k a
// rank has the sum of the last 2^(k+1) ranks up to its own.
//
// ceil(log2 p) steps, n elements sent and 2n read per rank and step, n scratch per step. For small
// messages.

#include "algorithms/scan/scan.hpp"

namespace capstan {

Schedule recursive_doubling_scan(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  Span sum = s.input();
  for (int distance = 1; distance < p; distance *= 2) {
    const Span landing = s.scratch(count);
    if (self + distance < p) s.send(group[self + distance], landing, sum);
    if (self < distance) continue;
    s.wait(group[self - distance]);
    const Span sources[] = {landing, sum};
    s.reduce(s.output(), sources);
    sum = s.output();
  }
  if (self == 0) s.copy(s.output(), s.input());
  return std::move(s).build();
}

}  // namespace capstan
