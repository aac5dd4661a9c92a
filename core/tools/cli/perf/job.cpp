// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>

#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/selection/rules.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/page.hpp"
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

std::string rules_of(const PerfOptions& options) {
  if (options.algorithm.empty()) return {};
  std::string rules;
  for (const Collective collective : collectives_of(options))
    rules +=
        fmt::format("{}{}:{}", rules.empty() ? "" : ";", name_of(collective), options.algorithm);
  AlgorithmRules::parse(rules, name_is_known);
  return rules;
}

namespace {

Settings settings_of(const PerfOptions& options) {
  auto settings = Settings::from_environment();
  if (!options.algorithm.empty()) settings.algorithm = rules_of(options);
  AlgorithmRules::parse(settings.algorithm, name_is_known);
  return settings;
}

}  // namespace

Communicator join_job(const PerfOptions& options, const Launch& launch) {
  const Settings settings = settings_of(options);
  if (launch.rank == 0) check_files(options);
  bind_if_free(launch);
  return Communicator::from_environment(settings);
}

int run_threads(const PerfOptions& options,
                const std::function<int(const Launch& launch, Communicator world)>& rank) {
  check_files(options);
  std::vector<Communicator> worlds =
      Communicator::local_world(options.threads, settings_of(options));
  std::vector<std::future<int>> threads;
  for (int i = 0; i < options.threads; ++i)
    threads.push_back(std::async(std::launch::async, [&, i] {
      const Launch launch{.rank = i,
                          .size = options.threads,
                          .local_rank = i,
                          .local_size = options.threads,
                          .job = {},
                          .launcher = "threads of one process"};
      bind_if_free(launch);
      return rank(launch, std::move(worlds[static_cast<std::size_t>(i)]));
    }));
  int status = 0;
  for (std::future<int>& each : threads) status = std::max(status, each.get());
  return status;
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
