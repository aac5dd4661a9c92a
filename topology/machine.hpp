#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/quantity.hpp"

namespace capstan {

/// A set of processing units, by the operating system's numbers, in ascending order.
using CpuSet = std::vector<int>;

/// "0-3,8".
std::string to_string(const CpuSet& cpus);

/// One core that this process may use, and what it shares with others. Numbers are logical indices
/// within the machine; -1 where the machine does not say.
struct Core {
  CpuSet processing_units;
  int package = -1;
  int numa_node = -1;
  int l2 = -1;
  int l3 = -1;
};

/// How near two cores are to each other, nearest first.
enum class Proximity { same_core, same_l2, same_l3, same_numa_node, same_package, same_machine };
std::string_view name_of(Proximity proximity);

/// The part of a machine that this process may use, as hwloc sees it. Immutable.
class Machine {
 public:
  /// This machine, restricted to the processors that this process may use (its affinity and its
  /// cgroup). Throws SystemError when hwloc cannot tell.
  static Machine discover();
  /// A machine that is not here, from hwloc's synthetic description, for example
  /// "package:2 l3:1 core:4 pu:2". Throws InvalidArgument when it makes no sense.
  static Machine synthetic(const std::string& description);

  const std::vector<Core>& cores() const { return cores_; }
  int packages() const { return packages_; }
  int numa_nodes() const { return numa_nodes_; }
  int processing_units() const;
  /// Size of one cache of a level (1 data, 2, 3); 0 when unknown.
  Bytes cache(int level) const { return caches_[static_cast<std::size_t>(level - 1)]; }

  /// Where each of `ranks` ranks of this host runs: a core each, in order, so that neighbours are
  /// near each other; spread evenly over the cores when there are fewer ranks, in turns when there
  /// are more. Never empty sets.
  std::vector<CpuSet> place_ranks(int ranks) const;

  /// How near the cores of two sets' first members are.
  Proximity proximity(const CpuSet& a, const CpuSet& b) const;

  /// Bytes that one rank may stage at a time so that they stay in its cache: a quarter of its L2,
  /// between 64 KiB and 512 KiB; 256 KiB when the L2 is unknown.
  Bytes chunk() const;

 private:
  static Machine read(void* topology);

  std::vector<Core> cores_;
  int packages_ = 0;
  int numa_nodes_ = 0;
  Bytes caches_[3];
};

/// The processors that the calling thread may run on.
CpuSet current_binding();

/// Binds the calling thread. Throws SystemError that names the processors.
void bind_this_thread(const CpuSet& cpus);

}  // namespace capstan
