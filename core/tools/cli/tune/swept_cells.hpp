// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/profiles/cell_sweep.hpp"
#include "core/profiles/judge_profile.hpp"
#include "core/profiles/machine_state.hpp"
#include "perf/report/origin.hpp"

namespace capstan::cli {

/// A cell that `capstan tune` has measured, with all its times and the state of the machine.
struct SweptCell {
  MeasuredCell cell;
  std::vector<CellSweep::Times> times{};
  MachineState state{};
};

/// The line above the cells.
std::string swept_head();
/// A line for the cell, and another one if it decides nothing.
std::string text_of(const SweptCell& swept);

/// The times of calls by the model's choices and by a profile's, a line for each cell of both:
/// "all_reduce 64K: 12.1 -> 9.3 us".
std::string text_of_changes(const Judgement& by_model, const Judgement& by_profile);

/// All times: docs/results.schema.json describes the document.
nlohmann::json to_json(const std::vector<SweptCell>& cells, const report::Facts& origin);

}  // namespace capstan::cli
