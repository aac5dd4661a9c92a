// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "capstan/error.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/explain/question.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/simulate/scenario.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/page.hpp"

namespace capstan::cli {
namespace {

constexpr const char* simulate_footer =
    "Examples:\n"
    "  capstan simulate all_reduce --ranks 4096 --bytes 1M --fabric fat-tree\n"
    "  capstan simulate all_reduce -n 1024 -b 64M --fabric rail --ranks-per-host 8\n"
    "  capstan simulate broadcast -n 512 -b 4M --fabric torus:dims=8x8x8 -a binomial --svg b.svg\n"
    "  capstan simulate all_reduce -n 1000000 -b 8M -a ring\n"
    "  capstan simulate all_reduce -n 512 --topology dgx.xml\n"
    "  capstan simulate all_reduce -n 256 --fabric dragonfly --chart page.html\n"
    "  capstan simulate barrier -n 100 --skew 20 --straggler 7:3\n\n"
    "Starts no ranks: the schedules of all ranks are lowered to the programs that would run, and\n"
    "an event queue runs these over the links of the network. Without --algorithm a rule of\n"
    "CAPSTAN_ALGORITHM decides, or else all algorithms compete, those of CAPSTAN_SCHEDULES, too;\n"
    "one that takes at least as long as another whatever the network is not simulated.\n\n"
    "Networks: KIND[:KEY=VALUE,...]\n"
    "  flat       one switch that never blocks\n"
    "  fat-tree   leaves, spines and cores; radix=64, oversubscription=1 (ports per link up)\n"
    "  dragonfly  groups of routers=16 with hosts=8 each, joined by one link to each other group\n"
    "  torus      a grid closed to rings; dims=8x8x4 (as even as possible if left out)\n"
    "  rail       hosts of several GPUs, each with a port; switches join the ports of one number;\n"
    "             assumed without --topology: GPUs copy and combine at 2 TB/s (copy-byte=0.0005,\n"
    "             reduce-byte=0) and read each other at 300 GB/s\n"
    "  all        bandwidth=25 GB/s and latency=300 ns of a port's link; switch-bandwidth (as a\n"
    "             port), switch-latency=150 between switches; global-latency=500 between groups\n\n"
    "overhead   calls, messages and flags      latency    of links and switches\n"
    "work       combining and copying          queueing   for links and memory in use\n"
    "transfer   bytes on their way             late       until a late rank makes the call\n\n"
    "docs/simulation.md says what the model holds and what it leaves out.";

void add_disturbances(CLI::App& command, SimulateOptions& options) {
  command
      .add_option("--skew", options.skew_us,
                  "Ranks make the call at random times of so many microseconds")
      ->check(number_from(0.0, 1e9));
  command.add_option("--seed", options.seed, "Of these random times")
      ->check(number_from(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command.add_option("--straggler", options.stragglers,
                     "RANK:FACTOR: this rank's own work takes so many times as long");
}

void add_machine(CLI::App& command, SimulateOptions& options) {
  command.add_option("-n,--ranks", options.ranks, "Ranks")
      ->check(number_from(2, most_simulated_ranks))
      ->capture_default_str();
  command
      .add_option("--ranks-per-host", options.ranks_per_host,
                  "Ranks that share memory and a port (default 1, or as the file says; rail: 8, "
                  "with a port each)")
      ->check(number_from(1, most_simulated_ranks));
  command.add_option("--fabric", options.fabric, "The network (default flat; see below)");
  command.add_option("--topology", options.topology,
                     "A file that describes the hosts or the cluster: Capstan's JSON, NCCL's XML "
                     "(NCCL_TOPO_DUMP_FILE) or hwloc's (lstopo FILE.xml); here: what `capstan "
                     "calibrate` has measured");
  command.add_option("--costs", options.costs,
                     "Nanoseconds of a rank: call=60,send=400,receive=400,cpu-byte=0,signal=40,"
                     "flag=250,copy-byte=0.02,reduce-byte=0.008");
}

void add_output(CLI::App& command, SimulateOptions& options) {
  add_json_option(command, options.json);
  command.add_option("--svg", options.svg, "Write a picture of the ranks over time to this file");
  command.add_option("--chart", options.chart, "Write all of it as an HTML page of diagrams");
  command.add_option("--links", options.links, "List so many of the busiest links")
      ->check(number_from(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--path", options.path, "Show so many messages of the critical path")
      ->check(number_from(0, 1'000'000))
      ->capture_default_str();
}

/// Freed memory stays with the program. Schedules of a million steps come and go, and glibc would
/// give their pages back each time. Measured: docs/lab-notebook.md#memory-of-a-simulation.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace

int run_simulate(const SimulateOptions& options, const std::vector<std::string>& arguments) {
  if (!options.chart.empty()) report::require_charts("--chart");
  perf::check_writable(options.svg);
  perf::check_writable(options.json);
  perf::check_writable(options.chart);
  keep_freed_memory();
  const Scenario scenario{options};
  if (prints_text(options.json)) perf::print_folded("{}", to_text(scenario));
  if (!options.json.empty()) perf::write_document(options.json, to_json(scenario));
  if (!options.svg.empty()) perf::write_document(options.svg, picture(scenario));
  if (!options.chart.empty())
    perf::write_document(options.chart,
                         chart_page(scenario, report::origin(arguments, build_commit())));
  return 0;
}

void add_simulate_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command =
      app.add_subcommand("simulate", "Show what a call would take on a cluster that is not here");
  const auto options = std::make_shared<SimulateOptions>();
  command->add_option("collective", options->collective, "Collective")
      ->check(CLI::IsMember(collectives_of_one_length()))
      ->capture_default_str();
  command->add_option("-b,--bytes", options->bytes, "Bytes of the largest buffer")
      ->capture_default_str();
  command->add_option("-a,--algorithm", options->algorithm,
                      "This algorithm only, also one of CAPSTAN_SCHEDULES");
  command->add_option("--protocol", options->protocol, "This protocol only")
      ->check(CLI::IsMember({"staged", "inline_packets"}));
  command->add_option("--block", options->block,
                      "Longest block of a long call (default: as the library cuts it)");
  command->add_option("--type", options->type, "Type of the elements")->capture_default_str();
  command->add_option("--op", options->op, "Operation of reductions")->capture_default_str();
  command->add_option("--root", options->root, "Root of rooted collectives")
      ->check(number_from(0, most_simulated_ranks - 1))
      ->capture_default_str();
  add_machine(*command, *options);
  add_disturbances(*command, *options);
  command->add_flag("--every-rank", options->every_rank,
                    "Simulate every rank, also where many do the same");
  add_output(*command, *options);
  command->footer(simulate_footer);
  command->callback([options, &status, &arguments] { status = run_simulate(*options, arguments); });
}

}  // namespace capstan::cli
