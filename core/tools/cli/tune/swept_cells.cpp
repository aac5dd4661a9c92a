// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/swept_cells.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

std::vector<double> microseconds(std::vector<double> nanoseconds) {
  for (double& each : nanoseconds) each /= 1000;
  return nanoseconds;
}

nlohmann::json to_json(const CellSweep::Times& times) {
  return {{"way", name_of(times.way)}, {"times_us", microseconds(times.nanoseconds)}};
}

nlohmann::json to_json(const SweptCell& swept) {
  nlohmann::json ways = nlohmann::json::array();
  for (const CellSweep::Times& each : swept.times) ways.push_back(to_json(each));
  return {{"collective", name_of(swept.cell.collective)},
          {"ranks", swept.cell.ranks},
          {"hosts", swept.cell.hosts},
          {"bytes", swept.cell.bytes.value()},
          {"confidence", swept.cell.confidence},
          {"machine", perf::to_json(swept.state)},
          {"ways", std::move(ways)}};
}

/// A change of a choice: "  all_reduce 64K: 12.1 -> 9.3 us  flat/staged -> direct/write_output".
std::string text_of_change(const JudgedCell& before, const JudgedCell& after) {
  const std::string times = fmt::format(
      "{:>14} {:>4}: {:.4g} -> {:.4g} us", name_of(after.collective), perf::short_size(after.bytes),
      before.chosen.nanoseconds / 1000, after.chosen.nanoseconds / 1000);
  if (before.chosen.is_same_way(after.chosen)) return times + "  as before\n";
  return fmt::format("{}  {}\n", times, name_of(after.chosen));
}

}  // namespace

std::string swept_head() {
  return fmt::format("{:>14} {:>4} {:<40} {:>12} {:>5}\n", "collective", "size", "fastest way",
                     "time", "conf.");
}

std::string text_of(const SweptCell& swept) {
  const MeasuredCell& cell = swept.cell;
  const MeasuredWay& best = cell.ways.front();
  std::string text = fmt::format("{:>14} {:>4} {:<40} {:>9.2f} us {:>3.0f} %\n",
                                 name_of(cell.collective), perf::short_size(cell.bytes),
                                 name_of(best), best.nanoseconds / 1000, cell.confidence * 100);
  if (!cell.decides())
    text += fmt::format("{:>19} decides nothing: {}\n", "!",
                        cell.disturbed ? swept.state.text() : cell.doubt());
  return text;
}

std::string text_of_changes(const Judgement& by_model, const Judgement& by_profile) {
  std::string text;
  for (const JudgedCell& after : by_profile.cells) {
    const auto before = std::ranges::find_if(by_model.cells, [&](const JudgedCell& cell) {
      return cell.collective == after.collective && cell.bytes == after.bytes;
    });
    if (before != by_model.cells.end()) text += text_of_change(*before, after);
  }
  if (!text.empty()) text.insert(0, "by the model -> by this profile, as measured:\n");
  if (!by_profile.doubtful.empty())
    text += fmt::format(
        "{} cells decide nothing, so that the model and trials do. The same command\n"
        "measures them again: run it when the machine is quiet.\n",
        by_profile.doubtful.size());
  return text;
}

nlohmann::json to_json(const std::vector<SweptCell>& cells, const report::Facts& origin) {
  nlohmann::json results = nlohmann::json::array();
  for (const SweptCell& each : cells) results.push_back(to_json(each));
  return {{"format", perf::results_format},
          {"command", "tune"},
          {"origin", report::to_json(origin)},
          {"results", std::move(results)}};
}

}  // namespace capstan::cli
