// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "capstan/blocks.hpp"
#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"

namespace capstan {

/// The promises of an algorithm beyond the contract of its collective. Proofs hold it to them.
struct Guarantees {
  /// No rank returns before every rank has entered: back-to-back calls need no other protection
  /// of scratch than rotating slots.
  bool synchronizes = false;
  /// In a stream of blocks no rank runs so far ahead that it writes to one of three rotating slots
  /// while another still reads it. Otherwise slots are acquired within streams, too.
  bool bounded_skew = false;
  /// Sums are combined in the order of ranks, so that the operation need not be commutative.
  bool ordered = false;
  /// All ranks of an all_reduce get the same sums, so that results that are rounded have the same
  /// bits on all of them.
  bool same_sums = true;
  /// Each sum adds the contributions one after the other, in the order of ranks, in one reduction
  /// or in several: the bits of rank_ordered_sum where partial sums are kept in the elements' own
  /// type.
  bool left_fold = false;
  /// Each sum is one reduction of all contributions in the order of ranks, so that its result is
  /// bitwise reproducible by every algorithm that promises it.
  bool rank_ordered_sum = false;
  /// Each sum is one reduction, in the order of hosts, of one reduction of each host's
  /// contributions in the order of ranks, on the hosts that the algorithm suits: its bits are those
  /// of every other algorithm that promises it.
  bool host_ordered_sum = false;
};

/// The kind of data in nearly all traffic. Peers can read inputs and outputs in place.
enum class Traffic : std::uint8_t {
  partials,  ///< partial sums
  inputs,    ///< inputs
  outputs,   ///< inputs, then finished parts of outputs
  results    ///< the same, and it ends in the outputs of peers
};

/// The hosts that an algorithm requires to be worth its while. Its result is right on all.
enum class Requires : std::uint8_t {
  anywhere,
  several_hosts,  ///< some of which have several ranks
  uniform_hosts   ///< the same, with equal numbers of ranks
};

/// Ranks that do the same: their schedules are equal but for the numbers of peers and the offsets
/// of data, when all blocks are equally long. A simulation of them need run one only.
enum class Symmetry : std::uint8_t {
  none,
  rotation,     ///< rank r does to r + d what rank 0 does to d, round the circle of ranks
  exclusive_or  ///< rank r does to r ^ d what rank 0 does to d, if ranks are a power of two
};

/// The source of an algorithm's schedules where it is no function of the registry: a pure function
/// of (group, shape), too.
class ScheduleSource {
 public:
  virtual ~ScheduleSource() = default;
  virtual Schedule schedule(const Group& group, const Shape& shape) const = 0;
};

/// An algorithm as declared in the registry: a pure function from (group, shape) to a schedule.
struct Algorithm {
  std::string_view name;
  Collective collective;
  std::string_view summary;  ///< one line for `--help` and explanations
  Schedule (*build)(const Group& group, const Shape& shape);
  int max_ranks;  ///< above it a rank's schedule would be unreasonably long
  Guarantees guarantees{};
  Traffic traffic = Traffic::partials;
  Requires requirement = Requires::anywhere;
  /// Instead of `build`, of an algorithm that was added at run time. It outlives the algorithm.
  const ScheduleSource* source = nullptr;
  std::uint64_t digest = 0;  ///< of the source's schedules: ranks compare it in every call
  Symmetry symmetry = Symmetry::none;
  /// It sends more than others to make each sum one reduction, and is considered only where sums
  /// are to be reproducible.
  bool for_one_reduction = false;

  bool suits(const Hosts& hosts) const {
    return requirement == Requires::anywhere ||
           (!hosts.single() && hosts.count() < hosts.ranks() &&
            (requirement == Requires::several_hosts || hosts.even()));
  }

  /// The schedule of one rank of `group`. A group of one only copies. Throws InvalidArgument when
  /// the group is larger than max_ranks.
  Schedule schedule(const Group& group, const Shape& shape) const;
};

/// All algorithms of a collective, in order of declaration.
std::span<const Algorithm> algorithms(Collective collective);

/// The algorithm named `name`. Throws InvalidArgument, which lists the known names.
const Algorithm& algorithm_named(Collective collective, std::string_view name);

}  // namespace capstan
