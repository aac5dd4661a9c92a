// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/perf/messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/job.hpp"
#include "perf/measure/messages.hpp"
#include "perf/measure/processes.hpp"
#include "perf/measure/progress_bar.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/origin.hpp"
#include "perf/report/page.hpp"

namespace capstan::cli {

bool sends_messages(const PerfOptions& options) {
  return std::ranges::find(options.collectives, messages_name) != options.collectives.end();
}

void check_message_options(const CLI::App& command, const PerfOptions& options) {
  refuse_options(command,
                 {"--types",       "--ops",        "--algorithm", "--root",       "--in-place",
                  "--both-places", "--buffers",    "--device",    "--skew",       "--min-busbw",
                  "--chart",       "--trace",      "--against",   "--unbound",    "--start",
                  "--fused",       "--many",       "--overlap",   "--off-cache",  "--unalign",
                  "--groups",      "--iterations", "--cycles",    "--timestamps", "--memory"},
                 "not for messages, which are bytes between pairs of ranks");
  if (options.collectives.size() > 1)
    throw InvalidArgument("messages and collectives have tables of their own: measure them apart");
  swept_sizes(options);
}

void check_pairs(int ranks) {
  if (ranks < 2) throw InvalidArgument("messages need two ranks: -n 2");
}

int run_messages(const PerfOptions& options, const Launch& launch,
                 const std::vector<std::string>& arguments, Communicator world) {
  const auto processes = perf::processes_of(world, -1);
  const bool prints = world.rank() == 0, prints_table = prints && prints_text(options.json);
  const perf::Table table =
      perf::messages_table(options.format, perf::line_width(), options.measure.percentiles);
  if (prints_table) {
    print_comment(options.format,
                  fmt::format("# messages in pairs of ranks: {} ({}), times of the slowest pair\n"
                              "# bandwidths and rate: {} messages under way, all pairs together\n",
                              world.size() / 2, launch.launcher, options.measure.window));
    if (options.lists_ranks) print_comment(options.format, to_lines(processes));
    print_table_head(options.format, table);
  }
  const MachineReading before = read_machine();
  perf::MessageBench bench{world, largest_of(options), options.measure};
  auto results = nlohmann::json::array();
  std::uint64_t wrong = 0;
  const std::vector<Bytes> sizes = swept_sizes(options);
  perf::ProgressBar progress{sizes.size(), prints};
  for (const Bytes size : sizes) {
    progress.show("measuring");
    const perf::MessageMeasurement measured = bench.measure(size);
    progress.step();
    wrong += measured.wrong;
    if (prints_table) print_line(table_line(table, measured));
    results.push_back(to_json(measured));
  }
  const MachineState state = perf::state_since(world, before);
  if (prints_table)
    print_comment(options.format,
                  fmt::format("{}# machine: {}\n# wrong bytes: {}\n",
                              options.format == perf::TableFormat::markdown ? "\n" : "",
                              state.text(), wrong));
  if (prints)
    write_json(options.json,
               {{"format", perf::results_format},
                {"command", "perf messages"},
                {"origin", report::to_json(report::origin(arguments, build_commit()))},
                {"machine", perf::to_json(state)},
                {"launcher", launch.launcher},
                {"processes", perf::to_json(processes)},
                {"pairs", world.size() / 2},
                {"window", options.measure.window},
                {"results", results}});
  return wrong == 0 ? 0 : 1;
}

}  // namespace capstan::cli
