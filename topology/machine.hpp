#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/quantity.hpp"
#include "cpu_set.hpp"

namespace capstan {

/// Where a core is: indices count the machine's packages, NUMA nodes and caches from 0 in the order
/// in which they lie, so that neighbouring indices are near each other.
struct Core {
  static constexpr int none = -1;  ///< there is no such cache, or the system does not tell

  int index = 0;
  int package = 0;
  int numa_node = 0;
  int l2 = none;            ///< index into Machine::l2_caches
  int l3 = none;            ///< index into Machine::l3_caches
  CpuSet processing_units;  ///< its hardware threads
};

/// One cache and the hardware threads that share it.
struct Cache {
  Bytes size;  ///< 0 when the system does not tell
  CpuSet processing_units;
};

/// What a machine consists of, as the system (or a file) tells it.
struct MachineDescription {
  std::string name;         ///< of the processor; may be empty
  std::vector<Core> cores;  ///< all of them, cores[i].index == i
  std::vector<Cache> l1d_caches, l2_caches, l3_caches;
  CpuSet usable;  ///< the processing units that this process may run on
};

/// A machine as seen by a process that may use all or a part of it: `cores` and
/// `processing_units` hold the usable part only, while `core_of` and the caches know of the whole,
/// because peers may run where this process may not. Immutable, so threads can share it.
class Machine {
 public:
  /// This machine, of which the calling thread's affinity mask (taskset, cgroup cpuset, a
  /// launcher's binding) is usable. Takes 1.5 to 3 ms on 4 processing units and 15 to 20 ms on 256,
  /// nearly all of it in reading /sys. Throws SystemError.
  static Machine discover();
  /// A machine saved with `lstopo FILE.xml`. Throws InvalidArgument.
  static Machine from_xml(const std::string& path);
  /// A machine in hwloc's notation, for example "package:2 numa:1 l3:1(size=32MB) core:4 pu:2".
  /// Throws InvalidArgument.
  static Machine from_synthetic(const std::string& description);
  /// Throws InvalidArgument when no core is usable.
  explicit Machine(MachineDescription description);

  const std::string& name() const { return all_.name; }

  /// Usable cores in the order in which they lie, each with its usable processing units; never
  /// empty.
  std::span<const Core> cores() const { return cores_; }
  /// The usable ones.
  const CpuSet& processing_units() const { return all_.usable; }
  /// How many have usable cores.
  int packages() const { return packages_; }
  int numa_nodes() const { return numa_nodes_; }

  /// Every core, usable or not.
  std::span<const Core> every_core() const { return all_.cores; }
  /// The core, usable or not, of a processing unit; null if the machine has no such unit.
  const Core* core_of(unsigned processing_unit) const;

  std::span<const Cache> l2_caches() const { return all_.l2_caches; }
  std::span<const Cache> l3_caches() const { return all_.l3_caches; }
  /// Size of one cache, the smallest if they differ; 0 if unknown.
  Bytes l1d() const;
  Bytes l2() const;
  Bytes l3() const;
  /// How many cores, usable or not, share `cache`.
  int cores_sharing(const Cache& cache) const;

 private:
  MachineDescription all_;
  std::vector<Core> cores_;
  std::vector<int> core_of_unit_;
  int packages_ = 0, numa_nodes_ = 0;
};

/// Where each of `ranks` ranks of this host is to run, entry r for local rank r. While there are
/// cores enough, each rank has one to itself (with all its hardware threads) and ranks are spread
/// evenly over packages, NUMA nodes and caches, neighbouring ranks staying near each other. Beyond
/// that they go round the cores again: rank r shares the core of rank r - cores, so that each
/// round is a full set of ranks that can run at the same time.
///
/// All ranks must see the same machine for this. Ranks that a launcher has bound each see their own
/// part only: leave those where they are.
///
/// Throws InvalidArgument when `ranks` is not positive.
std::vector<CpuSet> place_ranks(const Machine& machine, int ranks);

/// Binds the calling thread, and with it the threads that it starts later. Where a cgroup allows
/// only a part of `set`, the thread is bound to that part. Throws InvalidArgument for an empty set,
/// SystemError when the system allows none of it.
void bind_this_thread(const CpuSet& set);

/// What the calling thread may run on. Throws SystemError.
CpuSet current_binding();

/// A core for a helper of rank `rank` of this host, near to it and not among those that ranks are
/// bound to, of which binding r is rank r's; ranks take them in turn. Empty when there is none.
CpuSet spare_core(const Machine& machine, std::span<const CpuSet> bindings, int rank);

/// The closest thing that two ranks share, nearest first.
enum class Proximity : std::uint8_t { same_core, same_l2, same_l3, same_package, same_machine };

std::string_view name_of(Proximity proximity);

/// The smallest part of the machine that surely holds two ranks of this host, bound to `a` and `b`:
/// ranks that may wander over several cores are as far apart as these. Processing units that the
/// machine does not know count as far. Throws InvalidArgument when a set is empty.
Proximity proximity(const Machine& machine, const CpuSet& a, const CpuSet& b);

inline constexpr Bytes shortest_chunk{64 << 10};  ///< that is worth its flags

/// A size and why it was chosen, as a clause: "three slots of it fill half of ...".
struct ChunkChoice {
  Bytes bytes;
  std::string reason;
};

/// How many bytes of a long operation a rank should stage at a time, so that what ranks exchange
/// stays in cache, for ranks of this host bound to `bindings`.
///
/// A staged pipeline rotates through three slots per rank. They should fill at most half of the
/// rank's share of L2, the other half being for the caller's data that pass through. Where L2 is
/// too small for 256 KiB the same share of L3 counts, up to 256 KiB: shorter chunks spend more of
/// their time in exchanging flags than L2 saves over L3. Ranks that run under a cache share it
/// equally, but a share is never smaller than a core's: where ranks take turns on a core, smaller
/// chunks would only make them switch more often.
///
/// In each slot a rank has a chunk for every rank, so that what is staged grows with the square of
/// their number. It should fill at most half of the L2s or of L3, or else go in shorter chunks,
/// where ranks share cores, too.
///
/// The result is a power of two in 64 KiB .. 1 MiB. It is 256 KiB where caches are unknown or
/// cannot be real, as hypervisors often report them: an L2 of 4 MiB or more per core. An L3 of more
/// than 32 MiB per core, or no larger than an L2, is left out of account. The result depends on
/// nothing but the whole machine and the bindings, so ranks that exchanged theirs agree on it.
///
/// Throws InvalidArgument when there is no rank or a binding is empty.
ChunkChoice choose_chunk(const Machine& machine, std::span<const CpuSet> bindings);

/// The same for `ranks` ranks placed by place_ranks.
Bytes chunk_bytes_for(const Machine& machine, int ranks);

/// How long the input and the output of a rank may be together so that those of all ranks stay in
/// the last cache: a rank's share of L3, at most 16 MiB, as the L3 of a virtual machine is used by
/// others, too; 8 MiB where it is unknown or cannot be real. For `ranks` ranks placed by
/// place_ranks.
Bytes cached_buffers(const Machine& machine, int ranks);

}  // namespace capstan
