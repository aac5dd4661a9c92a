// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/selection/rules.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// Binds this rank to its own core, unless the launcher has bound it already.
void bind_if_free(const Launch& launch) {
  if (std::getenv("CAPSTAN_BINDING")) return;
  const Machine machine = Machine::discover();
  if (launch.local_size < 1 || machine.processing_units().size() == 1) return;
  bind_this_thread(
      place_ranks(machine, launch.local_size)[static_cast<std::size_t>(launch.local_rank)]);
}

}  // namespace

const Algorithm* name_is_known(Collective collective, std::string_view name) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  if (const char* const paths = std::getenv("CAPSTAN_SCHEDULES")) added.add_paths(paths);
  return added.check_name(collective, name);
}

void check_files(const PerfOptions& options) {
  if (!options.chart.empty()) report::require_charts("--chart");
  perf::check_writable(options.json);
  perf::check_writable(options.chart);
  perf::check_writable(options.trace);
}

Communicator join_job(const PerfOptions& options, const Launch& launch) {
  auto settings = Settings::from_environment();
  if (!options.algorithm.empty())
    settings.algorithm = options.collective() + ":" + options.algorithm;
  AlgorithmRules::parse(settings.algorithm, name_is_known);
  if (launch.rank == 0) check_files(options);
  bind_if_free(launch);
  return Communicator::from_environment(settings);
}

void print_line(const std::string& line) {
  line.find("\n#!") == line.npos ? fmt::print("{}", line) : perf::print_folded("{}", line);
  std::fflush(stdout);
}

void print_comment(perf::TableFormat format, std::string text) {
  if (format == perf::TableFormat::text) return perf::print_folded("{}", text);
  if (format == perf::TableFormat::markdown)
    for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1)
      if (text[at] == '#') text[at] = '-';
  fmt::print("{}", text);
}

void print_table_head(perf::TableFormat format, const perf::Table& table) {
  fmt::print("{}{}", format == perf::TableFormat::markdown ? "\n" : "", table.head());
}

}  // namespace capstan::cli
