// SPDX-License-Identifier: Apache-2.0

// Flat exclusive scan: everybody sends its input to all higher ranks, which add up for themselves.
//
// 1 step, up to (p-1)·n elements sent and p·n read per rank, p·n scratch. For tiny messages.

#include <vector>

#include "algorithms/exscan/exscan.hpp"

namespace capstan {

Schedule flat_exscan(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  const int p = group.size(), self = group.position();
  std::vector<Span> landings, sources;
  for (int i = 0; i < p; ++i) landings.push_back(s.scratch(count));
  for (int to = self + 1; to < p; ++to) s.send(group[to], landings[self], s.input());
  for (int from = 0; from < self; ++from) {
    s.wait(group[from]);
    sources.push_back(landings[from]);
  }
  if (self > 0) s.reduce(s.output(), sources);
  return std::move(s).build();
}

}  // namespace capstan
