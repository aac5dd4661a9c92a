// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/lowering/prove_algorithm.hpp"

namespace capstan::cli {

/// The subject of one line of `capstan verify`: an algorithm on one world, at all sizes and roots.
struct ProofCell {
  const Algorithm* algorithm = nullptr;
  Hosts hosts;
  std::vector<Shape> shapes;
  ProvenBuffers buffers = ProvenBuffers::both;
  double work = 0;  ///< see work_of()
};

struct CellResult {
  std::size_t steps = 0;                ///< of the rank that has the most
  std::uint64_t sent = 0, signals = 0;  ///< by the busiest rank, at the last size
  std::uint64_t between = 0;  ///< sent to other hosts by the busiest host, at the last size
  std::size_t proofs = 0;
  std::vector<std::string> findings;

  bool ok() const { return findings.empty(); }
};

/// A pure function: cells can be proven at the same time.
CellResult prove(const ProofCell& cell);

/// How much there is to prove, in steps of schedules: the times of proofs are about proportional to
/// it, whatever the algorithm and the number of ranks.
double work_of(const ProofCell& cell);

}  // namespace capstan::cli
