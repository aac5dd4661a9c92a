// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"
#include "core/schedule/lowering/protocol.hpp"
#include "core/schedule/proof/effect.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {

/// The schedules of all ranks.
ByRank<Schedule> schedules_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape);

/// The protocols in which an algorithm is proven on these hosts: all in which it runs, but one of
/// those that have the same programs.
std::vector<Protocol> protocols_of(const Algorithm& algorithm, const Hosts& hosts);
/// Whether the executor runs an algorithm in place in this protocol.
bool may_be_in_place(const Algorithm& algorithm, Protocol protocol);
/// The options for the proof of an algorithm's schedules: what the algorithm is held to, on these
/// hosts if they are given.
proof::ProofOptions proof_options(const Algorithm& algorithm, bool in_place,
                                  const Hosts* hosts = nullptr);
/// `scale` elements. In v-collectives each rank has a count of its own, up to `scale`.
Shape stream_shape(Collective collective, int ranks, int scale, int root);

/// "all_reduce by ring on 4 ranks, root 1, count 7, staged". `form`: a protocol, "schedule" or the
/// like.
std::string name_of_case(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                         std::string_view form);

/// A flaw of an algorithm.
struct AlgorithmFlaw {
  /// Begins with the case, which is all that is needed to prove it again, and names rank and step.
  std::string text;
  Rank rank{};
  int step = -1;  ///< of the rank's schedule or program; -1: none in particular
};

/// `proven`: the case.
AlgorithmFlaw flaw_of(const proof::Finding& finding, std::string_view proven);

/// How often something was proven, and what was found; without findings all of it is proven.
struct AlgorithmProof {
  std::size_t proofs = 0;
  std::vector<AlgorithmFlaw> findings{};
  /// Whether all ranks add in the same order: see Guarantees.
  bool same_sums = true;
  /// Whether each sum is added in the order of ranks, by one reduction or several: see Guarantees.
  bool left_fold = true;
  /// Whether each sum is one reduction in the order of ranks: see Guarantees.
  bool rank_ordered_sum = true;

  bool ok() const { return findings.empty(); }
  std::vector<std::string> texts() const;
  AlgorithmProof& operator+=(AlgorithmProof&& other);
};

/// The guarantees of an algorithm where a proof has succeeded.
struct DerivedProof {
  AlgorithmProof proof{};
  Guarantees guarantees{};

  /// Keeps the guarantees that hold in both.
  DerivedProof& operator+=(DerivedProof&& other);
};

/// More than any algorithm guarantees: where the derivation begins.
Guarantees everything();

/// Looks at the schedules of one call on its own: whether they are right, and what they guarantee
/// at this size, but for a bounded skew, which is taken for given where they synchronize. Throws
/// proof::TooMuchWork where there is a budget.
DerivedProof derive_from_schedules(const Algorithm& algorithm, const Hosts& hosts,
                                   const Shape& shape, proof::Budget* budget = nullptr);

/// The arrangement of a call's buffers in a proof.
enum class ProvenBuffers : std::uint8_t { both, in_place };

/// Proves what an algorithm does at one size: its schedules, and the programs of every protocol in
/// which it runs; in place and not, calls back to back. Programs of schedules that are refused are
/// not looked at.
/// Throws proof::TooMuchWork where there is a budget, as the next one does.
AlgorithmProof prove_algorithm(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                               ProvenBuffers buffers = ProvenBuffers::both,
                               proof::Budget* budget = nullptr);

/// Calls that are cut into blocks, whose phases overlap.
struct ProvenStreams {
  Shape block{};            ///< of each block of the schedules' proof
  Shape large{}, small{};   ///< of the programs' calls: one of each, and a large one again
  Elements block_length{};  ///< of the programs' calls; 0: they are not proven

  /// Streams with shorter last blocks, for algorithms that have schedules for all sizes. The large
  /// call has the first root, the small one the last one.
  static ProvenStreams of(Collective collective, int ranks);
  /// The same for one root.
  static ProvenStreams of(Collective collective, int ranks, int root);
  /// Blocks of this very shape. With counts for each rank the programs are left out: no call is
  /// cut into such blocks.
  static ProvenStreams of(Collective collective, const Shape& block);
};

/// Proves what an algorithm does in calls that are cut into blocks: its schedules, and the programs
/// of every protocol that cuts calls. What prove_algorithm() proves does not suffice for these: a
/// block's first phase runs before the last one of the block before.
AlgorithmProof prove_streams(const Algorithm& algorithm, const Hosts& hosts,
                             const ProvenStreams& streams, proof::Budget* budget = nullptr);

}  // namespace capstan
