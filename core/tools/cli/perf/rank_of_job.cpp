// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/rank_of_job.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/job.hpp"
#include "perf/measure/chart.hpp"
#include "perf/measure/progress_bar.hpp"

namespace capstan::cli {
namespace {

perf::MeasureOptions measure_options(const PerfOptions& options, const Launch& launch) {
  perf::MeasureOptions measure = options.measure;
  measure.device_number = std::max(launch.local_rank, 0);
  return measure;
}

/// A line for people: in tables for programs, lines of cycles follow one another.
void print_cycle(const PerfOptions& options, int cycle) {
  if (options.format == perf::TableFormat::text)
    print_comment(options.format, fmt::format("# cycle {} of {}\n", cycle, options.cycles));
}

}  // namespace

RankOfJob::RankOfJob(const PerfOptions& options, const Launch& launch,
                     const std::vector<std::string>& arguments, Communicator world)
    : options_(options),
      launch_(launch),
      arguments_(arguments),
      cells_(cells_of(options, launch.size / options.measure.groups)),
      world_(std::move(world)),
      start_up_(perf::measure_start_up(world_)),
      prints_(world_.rank() == 0),
      table_(prints_ && prints_text(options.json)),
      columns_(cells_, {.format = options.format,
                        .width = perf::line_width(),
                        .both_places = options.both_places,
                        .percentiles = options.measure.percentiles,
                        .overlap = options.measure.beside != perf::Beside::nothing,
                        .timestamps = options.timestamps}),
      bench_(world_, largest_of(options), measure_options(options, launch)) {}

int RankOfJob::run() {
  const MachineReading before = read_machine();
  const auto processes = perf::processes_of(
      world_, options_.measure.vendor.empty() ? -1 : std::max(launch_.local_rank, 0));
  if (table_) print_head(processes);
  measure_all();
  if (options_.memory_use) memory_use_ = perf::measure_memory_use(world_);
  const MachineState state = perf::state_since(world_, before);
  if (table_) print_end(state);
  write_trace();
  if (prints_) write_documents(state, processes);
  return wrong_ == 0 && mean_bus_bandwidth() >= options_.least_bandwidth ? 0 : 1;
}

/// "capstan run, plain buffers".
std::string RankOfJob::where() const {
  const perf::MeasureOptions& measure = options_.measure;
  return fmt::format(
      "{}, {} buffers{}", launch_.launcher,
      measure.vendor.empty() ? std::string{name_of(measure.buffers)} : measure.vendor,
      measure.skew.count() > 0 ? unusual_conditions(measure) : unusual_calls(measure.calls));
}

/// "4 ranks", "2 groups of 2 ranks each at once".
std::string RankOfJob::ranks() const {
  const int groups = options_.measure.groups;
  if (groups == 1) return fmt::format("{} ranks", world_.size());
  return fmt::format("{} groups of {} ranks each at once", groups, world_.size() / groups);
}

void RankOfJob::print_head(const std::vector<perf::ProcessOfRank>& processes) const {
  print_comment(options_.format, conditions_of(columns_.columns(), cells_, ranks(), where()));
  if (options_.lists_ranks) print_comment(options_.format, to_lines(processes));
  if (const auto pairs = undefined_pairs(options_); !pairs.empty())
    print_comment(options_.format,
                  fmt::format("# left out, not defined: {}\n", fmt::join(pairs, ", ")));
  print_table_head(options_.format, columns_.columns());
}

/// Each cell, or with --both-places each cell and then the same in place.
void RankOfJob::measure_all() {
  const std::size_t lines = cells_.size() * static_cast<std::size_t>(options_.cycles);
  perf::ProgressBar progress{lines, prints_};
  for (std::size_t i = 0; i < lines; ++i) {
    const perf::Cell& cell = cells_[i % cells_.size()];
    const int cycle = static_cast<int>(i / cells_.size()) + 1;
    if (table_ && i % cells_.size() == 0 && i > 0) print_cycle(options_, cycle);
    progress.show("measuring");
    std::vector<perf::Measurement> places{measure(cell, cycle)};
    if (options_.both_places && perf::may_be_in_place(cell.collective)) {
      perf::Cell in_place = cell;
      in_place.in_place = true;
      places.push_back(measure(in_place, cycle));
    }
    for (const perf::Measurement& each : places) wrong_ += each.wrong;
    progress.step();
    if (table_) print_line(columns_.line(places));
    measurements_.insert(measurements_.end(), places.begin(), places.end());
  }
}

perf::Measurement RankOfJob::measure(const perf::Cell& cell, int cycle) {
  perf::Measurement measured = bench_.measure(cell);
  if (options_.cycles > 1) measured.cycle = cycle;
  if (options_.timestamps)
    measured.ended = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)));
  return measured;
}

void RankOfJob::print_end(const MachineState& state) const {
  std::string text = options_.format == perf::TableFormat::markdown ? "\n" : "";
  if (!options_.measure.vendor.empty())
    text += fmt::format("# by {}\n", measurements_.back().explanation);
  print_comment(
      options_.format,
      text + fmt::format("{}{}# mean busbw: {:.2f} GB/s\n# machine: {}\n# wrong values: {}\n",
                         to_line(start_up_), memory_use_ ? to_line(*memory_use_) : "",
                         mean_bus_bandwidth(), state.text(), wrong_));
}

/// As nccl-tests sums up: the mean over all lines.
double RankOfJob::mean_bus_bandwidth() const {
  double sum = 0;
  for (const perf::Measurement& each : measurements_) sum += each.bus_bandwidth();
  return sum / static_cast<double>(measurements_.size());
}

/// All ranks make the calls that are recorded; one writes the file.
void RankOfJob::write_trace() {
  if (options_.trace.empty()) return;
  perf::RecordedCalls recorded;
  for (const perf::Cell& cell : cells_) recorded.append(bench_.record(cell));
  if (prints_) perf::write_document(options_.trace, to_document(recorded, options_.trace));
}

/// The document of --json and the page of --chart.
void RankOfJob::write_documents(const MachineState& state,
                                const std::vector<perf::ProcessOfRank>& processes) const {
  report::Facts origin = report::origin(arguments_, build_commit());
  auto results = nlohmann::json::array();
  for (const perf::Measurement& each : measurements_) results.push_back(to_json(each));
  nlohmann::json document{{"format", perf::results_format},
                          {"command", "perf"},
                          {"origin", report::to_json(origin)},
                          {"machine", perf::to_json(state)},
                          {"launcher", launch_.launcher},
                          {"processes", perf::to_json(processes)},
                          {"skew_us", options_.measure.skew / std::chrono::microseconds{1}},
                          {"conditions", conditions_of(options_.measure)},
                          {"start_up", to_json(start_up_)},
                          {"results", results}};
  if (memory_use_) document["memory"] = to_json(*memory_use_);
  write_json(options_.json, document);
  if (options_.chart.empty()) return;
  origin.emplace_back("meanwhile", state.text());
  perf::write_document(options_.chart, chart_page(measurements_, origin));
}

}  // namespace capstan::cli
