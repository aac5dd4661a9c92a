// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "topology/cpu_set.hpp"

namespace capstan {

/// Where a rank may run, beside what it has to run.
struct RankBinding {
  CpuSet own;                  ///< the processors of the rank
  std::optional<CpuSet> all;   ///< those that `capstan run` divides; empty: it has bound nobody
  std::size_t ranks = 1;       ///< on this host
  std::size_t threads = 1;     ///< of the program, when it starts
  std::size_t processors = 1;  ///< of the host

  /// That of this process. `threads`: its threads are ranks.
  static RankBinding of_this_process(std::size_t ranks, bool threads);
};

/// Whether `capstan run` has bound the rank to fewer processors than the program has threads, but
/// for one that mostly waits.
bool slows_threads(const RankBinding& binding);

/// For people: "CPUs 0, bound by capstan run"; and, where the rank may use fewer processors than
/// the program has threads, or than its share of them, how to change that.
std::string binding_note(const RankBinding& binding);

}  // namespace capstan
