// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "capstan/hosts.hpp"
#include "core/profiles/profile.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/selection/link_model.hpp"

namespace capstan {

/// The call that a cell was measured with, in f32, as predictions take it.
Call measured_call(const MeasuredCell& cell, MemoryKind memory = MemoryKind::host);

/// A measured kind of call, and the way that is chosen for it.
struct JudgedCell {
  Collective collective = Collective::all_reduce;
  Bytes bytes{};
  MeasuredWay fastest, chosen;

  /// The time of the chosen way, divided by that of the fastest one.
  double ratio() const { return chosen.nanoseconds / fastest.nanoseconds; }
  /// The least that the ratio may be, given the spread of both times.
  double least_ratio() const;
};

/// How well a choice does, and the model's predictions, where every candidate was measured.
struct Judgement {
  std::vector<JudgedCell> cells;
  std::vector<JudgedCell> not_measured;  ///< whose chosen way has no time
  std::vector<MeasuredCell> doubtful;    ///< that decide nothing: they judge nothing, either
  std::vector<double> errors;  ///< of the prediction of each way: its share of the measured time
  std::size_t pairs = 0;       ///< of ways of a cell that differ by more than a fifth
  std::size_t pairs_in_order = 0;  ///< those of which the faster one is predicted to be faster

  double median_error() const;
};

/// Judges the choices for the cells of a group by the times in it. They are the model's, or those
/// of another profile.
Judgement judge(const MeasuredGroup& group, const Hosts& hosts, const LinkModel& model,
                const MeasuredTimes* profile = nullptr);

/// The cells whose choice takes more than `bound` times as long as the fastest way, beyond the
/// spread of both, in each of several measurements of the same cells.
std::vector<JudgedCell> worse_than(double bound, const std::vector<Judgement>& measurements);

}  // namespace capstan
