// SPDX-License-Identifier: Apache-2.0

// Flat broadcast: the root sends everything to everybody.
//
// 1 step, (p-1)·n elements sent by the root, n scratch. For tiny messages, and wherever all can
// read what the root has written once.

#include "algorithms/broadcast/broadcast.hpp"

namespace capstan {

Schedule flat_broadcast(const Group& group, int root, Elements count) {
  const bool is_root = group.position() == root;
  ScheduleBuilder s{group, count, count};
  const Span landing = s.scratch(count);
  if (is_root)
    for (int d = 1; d < group.size(); ++d) s.send(group.right(d), landing, s.input());
  else
    s.wait(group[root]);
  s.copy(s.output(), is_root ? s.input() : landing);
  return std::move(s).build();
}

}  // namespace capstan
