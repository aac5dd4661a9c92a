#pragma once

#include <functional>
#include <vector>

#include "core/ir/proof/machine.hpp"
#include "core/ir/schedule.hpp"
#include "core/ir/types.hpp"

namespace capstan {

namespace proof {

/// What a proof found wrong; nothing means proven.
struct Verdict {
  std::vector<Finding> findings;
  bool ok() const { return findings.empty(); }
};

/// The order in which the phases of a stream's blocks run: round t runs phase k of block t-k.
void for_each_phase(int blocks, int phases, const std::function<void(int block, int phase)>& visit);

/// Checks that every output element of every block holds each rank's contribution once.
/// `extents[block]` are the lengths of input and output.
void check_results(Machine& machine, Collective collective, int ranks,
                   const std::vector<Extents>& extents);

struct ProofOptions {
  int calls = 4;          ///< back to back, without a barrier in between
  int slots = 2;          ///< over which scratch rotates
  bool in_place = false;  ///< output and input are the same memory
  int blocks = 1;         ///< more than 1: each call is a stream of this many blocks
};

/// Proves that the schedules of all ranks together do what the collective promises, in every
/// interleaving and however late puts land: no deadlock, no race, every contribution in its place
/// exactly once, also when calls follow one another. `schedules[r]` belongs to rank r.
Verdict prove_schedules(Collective collective, const std::vector<Schedule>& schedules,
                        const ProofOptions& options = {});

}  // namespace proof
}  // namespace capstan
