// SPDX-License-Identifier: Apache-2.0

// Chain scan: each rank adds its input to the sum that it gets and passes it on.
//
// p-1 steps, n elements sent and 2n read per rank, n scratch. Long messages as a pipeline of
// blocks.

#include "algorithms/scan/scan.hpp"

namespace capstan {

Schedule chain_scan(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int self = group.position();
  const Span landing = s.scratch(count);
  if (self == 0) {
    s.copy(s.output(), s.input());
  } else {
    s.wait(group.left());
    const Span sources[] = {landing, s.input()};
    s.reduce(s.output(), sources);
  }
  if (self + 1 < group.size()) s.send(group.right(), landing, s.output());
  return std::move(s).build();
}

}  // namespace capstan
