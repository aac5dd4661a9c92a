// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/quantity.hpp"
#include "cpu_set.hpp"

namespace capstan {

/// One core and its place in the machine. Packages, NUMA nodes and caches are numbered from 0 in
/// their physical order, so that neighbouring indices are near each other.
struct Core {
  static constexpr int none = -1;  ///< no such cache, or not known

  int index = 0;
  int package = 0;
  int numa_node = 0;
  int l2 = none;            ///< index into Machine::l2_caches
  int l3 = none;            ///< index into Machine::l3_caches
  CpuSet processing_units;  ///< its hardware threads
};

/// One cache and the hardware threads that share it.
struct Cache {
  Bytes size;  ///< 0 if unknown
  CpuSet processing_units;
};

/// The parts of a machine, as the system or a file describes them.
struct MachineDescription {
  std::string name;         ///< of the processor; may be empty
  std::vector<Core> cores;  ///< all of them, cores[i].index == i
  std::vector<Cache> l1d_caches, l2_caches, l3_caches;
  CpuSet usable;  ///< the processing units that this process may run on
};

/// A machine, and the part of it that this process may use. `cores` and `processing_units` hold the
/// usable part only; `core_of` and the caches describe the whole machine, because peers may run on
/// other parts. Immutable, so threads can share it.
class Machine {
 public:
  /// This machine. The usable part is the calling thread's affinity mask (taskset, cgroup cpuset, a
  /// launcher's binding). Takes 1.5 to 3 ms on 4 processing units and 15 to 20 ms on 256, nearly
  /// all of it in reading /sys. Throws SystemError.
  static Machine discover();
  /// A machine saved with `lstopo FILE.xml`. Throws InvalidArgument.
  static Machine from_xml(const std::string& path);
  /// A machine in hwloc's notation, for example "package:2 numa:1 l3:1(size=32MB) core:4 pu:2".
  /// Throws InvalidArgument.
  static Machine from_synthetic(const std::string& description);
  /// Throws InvalidArgument when no core is usable.
  explicit Machine(MachineDescription description);

  const std::string& name() const { return all_.name; }

  /// Usable cores in physical order, each with its usable processing units; never empty.
  std::span<const Core> cores() const { return cores_; }
  /// The usable processing units.
  const CpuSet& processing_units() const { return all_.usable; }
  /// The number of packages and of NUMA nodes with usable cores.
  int packages() const { return packages_; }
  int numa_nodes() const { return numa_nodes_; }

  /// Every core, usable or not.
  std::span<const Core> every_core() const { return all_.cores; }
  /// The core, usable or not, of a processing unit; null if the machine has no such unit.
  const Core* core_of(unsigned processing_unit) const;

  std::span<const Cache> l2_caches() const { return all_.l2_caches; }
  std::span<const Cache> l3_caches() const { return all_.l3_caches; }
  /// Size of one cache, the smallest if sizes differ; 0 if unknown.
  Bytes l1d() const;
  Bytes l2() const;
  Bytes l3() const;
  /// The number of cores, usable or not, that share `cache`.
  int cores_sharing(const Cache& cache) const;

 private:
  MachineDescription all_;
  std::vector<Core> cores_;
  std::vector<int> core_of_unit_;
  int packages_ = 0, numa_nodes_ = 0;
};

/// Places `ranks` ranks on this host: entry r is the binding of local rank r. Each rank gets a core
/// of its own, with all its hardware threads, while there are enough. Ranks are spread evenly over
/// packages, NUMA nodes and caches, and neighbouring ranks stay near each other. If there are more
/// ranks than cores, rank r shares the core of rank r - cores, so that as many ranks as possible
/// can run at the same time.
///
/// All ranks must see the same machine. Do not place ranks that a launcher has bound: each sees its
/// own part only.
///
/// Throws InvalidArgument when `ranks` is not positive.
std::vector<CpuSet> place_ranks(const Machine& machine, int ranks);

/// Binds the calling thread, and with it the threads that it starts later. Where a cgroup allows
/// only a part of `set`, the thread is bound to that part. Throws InvalidArgument for an empty set,
/// SystemError when the system allows none of it.
void bind_this_thread(const CpuSet& set);

/// The processing units on which the calling thread may run. Throws SystemError.
CpuSet current_binding();

/// A core for a helper thread of rank `rank` of this host: near to it, and free of ranks, which are
/// bound to `bindings`. Different ranks get different cores as far as possible. Empty if no core is
/// free.
CpuSet spare_core(const Machine& machine, std::span<const CpuSet> bindings, int rank);

/// The closest part of the machine that two ranks share, nearest first.
enum class Proximity : std::uint8_t { same_core, same_l2, same_l3, same_package, same_machine };

std::string_view name_of(Proximity proximity);

/// The smallest part of the machine that contains two ranks of this host, bound to `a` and `b`. A
/// rank that may run on several cores may be on any of them. Unknown processing units count as far.
/// Throws InvalidArgument when a set is empty.
Proximity proximity(const Machine& machine, const CpuSet& a, const CpuSet& b);

inline constexpr Bytes shortest_chunk{64
                                      << 10};  ///< shorter ones cost more in flags than they save

/// A size, and the reason for it as a clause: "three slots of it fill half of ...".
struct ChunkChoice {
  Bytes bytes;
  std::string reason;
};

/// The number of bytes of a long operation that a rank should stage at a time, so that staged data
/// stay in cache, for ranks of this host bound to `bindings`.
///
/// A staged pipeline rotates through three slots per rank. They should fill at most half of the
/// rank's share of L2; the caller's data pass through the other half. If L2 is too small for 256
/// KiB, the same share of L3 counts, up to 256 KiB: shorter chunks spend more time on flags than L2
/// saves over L3. Ranks share a cache equally, but a share is never smaller than a core's: where
/// several ranks share a core, smaller chunks would only make them switch more often.
///
/// In each slot a rank has a chunk for every rank, so that staged data grow with the square of the
/// number of ranks. All of it should fill at most half of the L2s or of L3; otherwise chunks are
/// shorter, also where ranks share cores.
///
/// The result is a power of two in 64 KiB .. 1 MiB. It is 256 KiB if caches are unknown or
/// implausible, as hypervisors often report them: an L2 of 4 MiB or more per core. An L3 of more
/// than 32 MiB per core, or no larger than an L2, is ignored. The result depends only on the whole
/// machine and the bindings, so that ranks that exchange theirs agree on it.
///
/// Throws InvalidArgument when there is no rank or a binding is empty.
ChunkChoice choose_chunk(const Machine& machine, std::span<const CpuSet> bindings);

/// The chunk for `ranks` ranks placed by place_ranks.
Bytes chunk_bytes_for(const Machine& machine, int ranks);

/// The most bytes that the input and output of each rank may have together for the buffers of all
/// ranks to stay in the last cache. This is a rank's share of L3, but at most 16 MiB, as virtual
/// machines share their L3 with others; 8 MiB if L3 is unknown or implausible. For `ranks` ranks
/// placed by place_ranks.
Bytes cached_buffers(const Machine& machine, int ranks);

}  // namespace capstan
