// SPDX-License-Identifier: Apache-2.0

// Exclusive scan by recursive doubling (Hillis and Steele, "Data parallel algorithms", 1986): as
// scan does it, with the sum that leaves out the own input kept beside the one that is passed on.
//
// ceil(log2 p) steps, n elements sent and up to 4n read per rank and step, n scratch per step and n
// for the inclusive sum. For small messages.

#include "algorithms/exscan/exscan.hpp"

namespace capstan {

Schedule recursive_doubling_exscan(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  const Span inclusive = s.scratch(count);
  Span passed_on = s.input();
  for (int distance = 1; distance < p; distance *= 2) {
    const Span landing = s.scratch(count);
    if (self + distance < p) s.send(group[self + distance], landing, passed_on);
    if (self < distance) continue;
    s.wait(group[self - distance]);
    const Span with_own[] = {landing, passed_on}, without_own[] = {landing, s.output()};
    if (self + 2 * distance < p) {
      s.reduce(inclusive, with_own);
      passed_on = inclusive;
    }
    if (distance == 1)
      s.copy(s.output(), landing);
    else
      s.reduce(s.output(), without_own);
  }
  return std::move(s).build();
}

}  // namespace capstan
