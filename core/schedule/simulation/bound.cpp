// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/bound.hpp"

namespace capstan {
namespace {

/// Bytes that have to enter, or to leave, one of so many groups of ranks. The largest group has
/// `ranks` of `all`. `bytes`: of the call's largest buffer.
double crossing(Collective collective, double bytes, double ranks, double all, double groups) {
  const double of_others = bytes * (all - ranks) / all;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * bytes * (groups - 1) / groups;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan:
      return bytes;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
      return of_others;
    case Collective::all_to_all:
      return ranks * of_others;
    default:
      return 0;
  }
}

/// Finds the greatest bound.
class Bounds {
 public:
  Bounds(const Call& call, const Cluster& cluster)
      : collective_(call.collective),
        bytes_(static_cast<double>(call.extent(cluster.hosts.ranks()).value())),
        ranks_(cluster.hosts.ranks()) {}

  /// Groups of up to so many ranks, each with links of so many bytes per nanosecond.
  void cut(const std::string& what, int ranks, double bandwidth) {
    if (ranks >= ranks_) return;
    const int groups = (ranks_ + ranks - 1) / ranks;
    const double time = crossing(collective_, bytes_, ranks, ranks_, groups) / bandwidth;
    if (time > greatest_.time) greatest_ = {time, what};
  }
  PhysicalBound greatest() const { return greatest_; }

 private:
  const Collective collective_;
  const double bytes_;
  const int ranks_;
  PhysicalBound greatest_;
};

}  // namespace

PhysicalBound physical_bound(const Call& call, const Cluster& cluster) {
  const Hosts& hosts = cluster.hosts;
  Bounds bounds{call, cluster};
  if (hosts.single()) {
    bounds.cut(cluster.memory.name, 1, 1 / cluster.memory.byte);
    PhysicalBound bound = bounds.greatest();
    bound.time += cluster.costs.call;
    return bound;
  }
  const Fabric& fabric = *cluster.fabric;
  const LinkClass& port = fabric.classes()[Fabric::port_class];
  // Ranks of one host reach each other without the network: a group holds whole hosts.
  const int each = hosts.most_on_a_host(), ports_of_host = cluster.port_per_rank ? each : 1;
  bounds.cut(ports_of_host > 1 ? "host's ports" : "port", each, ports_of_host / port.byte);
  for (const Fabric::Partition& part : fabric.partitions())
    if (part.ports % ports_of_host == 0)
      bounds.cut(part.what, part.ports / ports_of_host * each, part.bandwidth);
  PhysicalBound bound = bounds.greatest();
  const RankCosts& costs = cluster.costs;
  bound.time += costs.call + costs.send + 2 * port.latency + costs.receive;
  return bound;
}

}  // namespace capstan
