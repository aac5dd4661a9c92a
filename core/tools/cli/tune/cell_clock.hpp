// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/engine/run/agreement.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/world/world.hpp"
#include "core/profiles/machine_state.hpp"
#include "core/schedule/selection/measured_times.hpp"
#include "core/tools/cli/tune/measured_calls.hpp"
#include "perf/measure/cell.hpp"

namespace capstan::cli {

/// The settings of the environment, without rules, profile and autotuner.
Settings settings_to_measure();

/// Joins the world that a launcher has started, with these settings. Throws as
/// join_launched_world().
Member join_to_measure();

/// How busy the machines of all ranks have been since a reading. All ranks call it.
MachineState state_since(const MachineReading& before, Engine& engine);

/// Measures calls of one kind in the ways that can run them. All ranks use theirs together, and
/// get the same answers.
class CellClock {
 public:
  /// `calls` outlives this.
  CellClock(MeasuredCalls& calls, const perf::Cell& cell);

  /// Every candidate that can run here, with its predicted time.
  const MeasuredCell& candidates() const { return candidates_; }
  /// The time of a call in each way, on the slowest rank, in nanoseconds: the mean of about as many
  /// calls as fit into `turn` nanoseconds. The first call of a way does not count: it makes the
  /// plan, and absorbs the skew between ranks.
  std::vector<double> times(const std::vector<MeasuredWay>& ways, double turn, double most_calls);

 private:
  MeasuredCell predicted() const;
  MeasuredWay& expected(const MeasuredWay& way);
  std::vector<double> greatest(const std::vector<double>& own);

  MeasuredCalls& calls_;
  CollectiveExchange exchange_;
  const MeasuredCall call_;
  const MeasuredCell candidates_;
  std::vector<MeasuredWay> expected_;  // with their last known times
};

}  // namespace capstan::cli
