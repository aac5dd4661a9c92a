// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/communicator/checked_call.hpp"
#include "core/engine/run/agreement.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/world/world.hpp"
#include "core/profiles/machine_state.hpp"
#include "core/schedule/selection/measured_times.hpp"
#include "perf/measure/cell.hpp"

namespace capstan::cli {

/// Joins the world that a launcher has started, without rules, profile and autotuner. Throws as
/// join_launched_world().
Member join_to_measure();

/// How busy the machines of all ranks have been since a reading. All ranks call it.
MachineState state_since(const MachineReading& before, Engine& engine);

/// Measures calls of one kind in the ways that can run them. All ranks use theirs together, and
/// get the same answers.
class CellClock {
 public:
  /// The buffers hold the call's and outlive this.
  CellClock(Engine& engine, const perf::Cell& cell, std::byte* input, std::byte* output);

  /// Every candidate that can run here, with its predicted time.
  const MeasuredCell& candidates() const { return candidates_; }
  /// The time of a call in each way, on the slowest rank, in nanoseconds: the mean of about as many
  /// calls as fit into `turn` nanoseconds. The first call of a way does not count: it makes the
  /// plan, and absorbs the skew between ranks.
  std::vector<double> times(const std::vector<MeasuredWay>& ways, double turn, double most_calls);

 private:
  MeasuredCell predicted() const;
  void run() { engine_.run(checked_.call, checked_.input, checked_.output); }
  MeasuredWay& expected(const MeasuredWay& way);
  std::vector<double> greatest(const std::vector<double>& own);

  Engine& engine_;
  CollectiveExchange exchange_;
  const CheckedCall checked_;
  const MeasuredCell candidates_;
  std::vector<MeasuredWay> expected_;  // with their last known times
};

}  // namespace capstan::cli
