// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "perf/compare/coordinator.hpp"

namespace capstan::perf {

/// How far the cores of the ranks lay from each other while a cell was measured: the nanoseconds in
/// which a flag gets from each rank to all others, before and after it. A virtual machine's
/// processors move between the cores of its host, and short calls take a multiple of their time
/// then. 0: not measured.
struct Distance {
  double before = 0, after = 0;

  bool known() const { return before > 0 && after > 0; }
  double mean() const { return (before + after) / 2; }
  /// Whether a processor moved meanwhile, so that the cell says little.
  bool changed() const { return known() && apart(before, after); }
  /// Whether two distances are not those of the same pair of cores.
  static bool apart(double one, double other) {
    constexpr double tolerance = 1.6;
    return std::max(one, other) > tolerance * std::min(one, other);
  }
};

/// Measures it by the bound's ranks, which exchange flags alone, all of them on one host. 0 where
/// they can't.
double measure_distance(Coordinator& coordinator);

}  // namespace capstan::perf
