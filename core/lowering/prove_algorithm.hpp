#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"
#include "core/ir/proof/effect.hpp"

namespace capstan {

/// The schedules of all ranks.
ByRank<Schedule> schedules_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape);

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

  bool ok() const { return findings.empty(); }
  std::vector<std::string> texts() const;
};

/// The arrangement of a call's buffers in a proof.
enum class ProvenBuffers : std::uint8_t { both, in_place };

/// Proves what an algorithm does at one size: its schedules, and the programs of every protocol in
/// which it runs; in place and not, calls back to back. Programs of schedules that are refused are
/// not looked at.
AlgorithmProof prove_algorithm(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                               ProvenBuffers buffers = ProvenBuffers::both);

}  // namespace capstan
