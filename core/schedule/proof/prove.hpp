// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"
#include "core/schedule/proof/block_layout.hpp"
#include "core/schedule/proof/budget.hpp"
#include "core/schedule/proof/classes.hpp"
#include "core/schedule/proof/digest.hpp"

namespace capstan::proof {

/// The findings of a proof; without any, the proof has succeeded.
struct Result {
  std::vector<Finding> findings{};
  ResultFacts results{};
  /// No rank could return before every rank had entered, whether or not that was claimed.
  bool synchronizes = true;

  bool ok() const { return findings.empty(); }
};

/// Scripts of effects that are to be proven to keep the contracts of a layout's blocks, in classes.
class Case {
 public:
  /// `layout` and `budget` are kept by reference. Throws TooMuchWork.
  Case(ByRank<std::vector<Effect>> scripts, const BlockLayout& layout, Budget& budget);

  /// The digest of all that the result depends on: cases with equal digests have one proof.
  Digest::Value digest() const;
  /// Once. Throws TooMuchWork.
  Result prove();

 private:
  Classes classes_;
  ClassLayout layout_;
  ByRank<std::vector<Effect>> scripts_;
  Budget& budget_;
};

/// The order in which the phases of a stream's blocks run: round t runs phase k of block t-k.
void for_each_phase(int blocks, int phases, const std::function<void(int block, int phase)>& visit);

struct ProofOptions {
  int calls = 4;             ///< back to back, without a barrier in between
  int slots = 2;             ///< over which scratch rotates
  bool in_place = false;     ///< output and input share memory
  int blocks = 1;            ///< more than 1: each call is a stream of this many blocks
  bool synchronizes = true;  ///< see Guarantees; if not, slots are acquired before they are reused
  bool bounded_skew = true;  ///< the same as `synchronizes`, within streams
  Claims claims{};
  Budget* budget = nullptr;  ///< null: none
};

/// The findings about the schedule of rank `self` alone: another rank's schedule, peers that do not
/// exist, buffers of other lengths, more steps or scratch than can be.
std::vector<Finding> form_of(Collective collective, const Shape& shape, const Schedule& schedule,
                             Rank self, int ranks);

/// Where operands of schedules begin and end, as Classes finds it: in each block of the caller's
/// buffers, and in the scratch of all ranks. Both begin with 0 and end with the length.
struct Cuts {
  std::vector<std::uint64_t> block, scratch;
};

/// For collectives without counts. The schedules have been proven. Throws TooMuchWork.
Cuts cuts_of(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
             Budget& budget);

/// Proves that the schedules of all ranks together do what the collective promises, in every
/// interleaving and however late puts land: no deadlock, no race, every contribution in its place
/// exactly once, also when calls follow one another.
Result prove_schedules(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
                       const ProofOptions& options = {});

}  // namespace capstan::proof
