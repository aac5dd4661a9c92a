// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "capstan/collective.hpp"
#include "capstan/error.hpp"
#include "capstan/export.hpp"
#include "capstan/schedule.hpp"

// Algorithms that a program adds. Rules name them as they name built-in ones
// (Settings::algorithm, CAPSTAN_ALGORITHM, Communicator::with_algorithm), and they run in the same
// engine. They belong to the process. Every rank adds the same: in every call ranks compare a
// digest of the schedules that run, and a difference is a Mismatch on all of them that names the
// ranks.
//
// Nothing runs that has not been proven. Before the first call of a kind (size, root, type) its
// plan is proven: the schedules of all ranks and the programs that they are lowered to, cut into
// the blocks that run, in place and not. What an algorithm guarantees is derived there. A plan
// whose proof would take longer than Settings::proof_limit is refused, unless the settings trust
// it. docs/how-it-works.md ("The proof") says what a proof relies on.

namespace CAPSTAN_EXPORT capstan {

/// The proof of an algorithm failed. `what()` lists what was found, with ranks and steps.
class AlgorithmRefused : public InvalidArgument {
 public:
  AlgorithmRefused(const std::string& message, Rank rank, int step)
      : InvalidArgument(message), rank_(rank), step_(step) {}
  /// The rank of the first finding that names a step; if none does, that of the first finding.
  Rank rank() const { return rank_; }
  /// The step in the schedule of rank(), from 0; -1: none in particular.
  int step() const { return step_; }

 private:
  Rank rank_;
  int step_;
};

/// An algorithm as a function. It depends on nothing but its arguments, may be called by any
/// thread, and is asked for the schedules of all ranks: see docs/add-an-algorithm.md.
struct CustomAlgorithm {
  /// Letters, digits and _ . - ; not the name of another one of the collective that has been
  /// proven.
  std::string name;
  Collective collective = Collective::all_reduce;
  /// `group`: two ranks or more.
  std::function<Schedule(const Group& group, const Shape& shape)> build;
  std::string summary{};
};

/// Adds an algorithm. It is proven for these numbers of ranks now, and for others when a
/// communicator first uses it: in sizes from one element to a few more than ranks, for all roots of
/// up to 16 ranks (of more the first and the last), in long calls that are cut into blocks, with
/// the programs that it is lowered to. So most mistakes are found at once; calls of other sizes are
/// proven before they first run, and throw AlgorithmRefused then. Thread-safe. Throws
/// AlgorithmRefused, and InvalidArgument when the name is taken or a number of ranks is not from 1
/// to 1024.
void add_algorithm(CustomAlgorithm algorithm, std::span<const int> ranks = {});

/// Adds the schedules of a file (docs/schedule-files.md), or of all files *.json of a folder;
/// several with commas between them. Files of one algorithm for several numbers of ranks belong
/// together. A communicator of other numbers of ranks does not use it: the selector chooses. Calls
/// of other sizes run the same steps on longer or shorter blocks; those of reduce and broadcast
/// with another root on ranks turned round. Each is proven as add_algorithm() says, and at its own
/// size, in single calls and in blocks. A path that has been added does nothing. Thread-safe.
/// Throws InvalidArgument that names file and place, and AlgorithmRefused.
void add_schedules(const std::string& paths);

/// The same for the text of one file, which is called `source` in messages. Returns the collective
/// and the name of the algorithm.
std::pair<Collective, std::string> add_schedule_text(std::string_view json,
                                                     const std::string& source);

}  // namespace CAPSTAN_EXPORT capstan
