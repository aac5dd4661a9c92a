// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/distance.hpp"

#include "perf/compare/protocol.hpp"

namespace capstan::perf {

using worker_protocol::Order;

/// The least of several measurements, as each may be disturbed.
double measure_distance(Coordinator& coordinator) {
  constexpr int times = 5;
  constexpr std::uint32_t flags = 400;
  std::size_t bound = 0;
  while (bound < coordinator.workers() && coordinator.spec(bound).peer_name != bound_name) ++bound;
  if (bound == coordinator.workers() || coordinator.disqualified(bound)) return 0;
  const auto tell = [&](Order::Kind kind) {
    return coordinator.order(bound, {.kind = kind,
                                     .collective = static_cast<std::uint32_t>(Collective::barrier),
                                     .calls = flags});
  };
  if (tell(Order::Kind::prepare).failed) return 0;
  double least = 0;
  for (int i = 0; i < times; ++i) {
    const double each = tell(Order::Kind::time).seconds / flags * 1e9;
    if (least == 0 || each < least) least = each;
  }
  tell(Order::Kind::release);
  return least;
}

}  // namespace capstan::perf
