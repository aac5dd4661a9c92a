// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/profiles/check_profile.hpp"
#include "core/profiles/export_profile.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/quiet.hpp"
#include "core/tools/cli/tune/chart.hpp"
#include "core/tools/cli/tune/judge.hpp"
#include "core/tools/cli/tune/load.hpp"
#include "core/tools/cli/tune/sweep.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/measure/duration_text.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/page.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct TuneOptions {
  std::vector<std::string> collectives{"all_reduce", "broadcast",      "reduce",
                                       "all_gather", "reduce_scatter", "all_to_all"};
  std::vector<std::string> sizes{"8", "64", "1K", "8K", "64K", "256K", "1M", "4M", "16M"};
  std::vector<int> ranks;
  launcher::HostOptions where;
  double seconds = 0.3;
  QuietOptions quiet;
  std::string vendor, output, under_load, check, format, chart, json;
  std::vector<std::string> judged;
  bool restart = false;
};

std::string usual_file() {
  const std::string file = user_profile_path(Fingerprint::of(Machine::discover()));
  if (file.empty())
    throw InvalidArgument("there is neither XDG_CONFIG_HOME nor HOME: name a file by --output");
  return file;
}

SweepPlan plan_of(const TuneOptions& options, const std::vector<std::string>& arguments) {
  SweepPlan plan{.collectives = {},
                 .sizes = {},
                 .seconds = options.seconds,
                 .vendor = options.vendor,
                 .file = options.output.empty() ? usual_file() : options.output,
                 .restart = options.restart,
                 .under_load = options.under_load,
                 .accepts_load = options.quiet.accepts_load || !options.under_load.empty(),
                 .command = report::command_text(arguments),
                 .commit = std::string{build_commit()},
                 .json = options.json,
                 .origin = report::origin(arguments, build_commit())};
  for (const std::string& name : options.collectives)
    plan.collectives.push_back(*collective_named(name));
  for (const std::string& size : options.sizes) {
    const auto bytes = parse_bytes(size);
    if (!bytes || *bytes < Bytes{4} || *bytes > Bytes{std::uint64_t{1} << 34})
      throw InvalidArgument(fmt::format("--sizes {}: expected sizes from 4 to 16G", size));
    plan.sizes.push_back(*bytes);
  }
  return plan;
}

std::vector<int> ranks_of(const TuneOptions& options) {
  if (options.where.given()) return {ranks_on(options.where.places(0))};
  if (!options.ranks.empty()) return options.ranks;
  return {std::max(2, static_cast<int>(Machine::discover().cores().size()))};
}

std::size_t cells_of(const SweepPlan& plan, const std::vector<int>& ranks) {
  return plan.collectives.size() * plan.sizes.size() * ranks.size();
}

/// Measured rounds take most of the time; plans, first calls and dropped candidates a half more.
double seconds_of(const SweepPlan& plan, const std::vector<int>& ranks) {
  return 1.5 * plan.seconds * static_cast<double>(cells_of(plan, ranks));
}

/// Several numbers of ranks are several jobs, of which each would write the document anew.
void check_json(const TuneOptions& options, const std::vector<int>& ranks) {
  perf::check_writable(options.json);
  if (!options.json.empty() && ranks.size() > 1)
    throw InvalidArgument("--json: several numbers of ranks are several documents: choose one");
}

void say_how_long(const SweepPlan& plan, const std::vector<int>& ranks) {
  perf::print_folded(
      "tune: {} collectives x {} sizes x {} ranks, {} cells: about {}\n"
      "tune: writes {} after each cell;\n"
      "tune: Ctrl-C keeps what it has, and the same command continues\n",
      plan.collectives.size(), plan.sizes.size(), fmt::join(ranks, ","), cells_of(plan, ranks),
      perf::duration_text(seconds_of(plan, ranks)), plan.file);
  std::fflush(stdout);
}

/// Draws all that the profile has, also what was measured earlier.
void write_chart(const TuneOptions& options, const std::string& file,
                 const std::vector<std::string>& arguments) {
  if (options.chart.empty()) return;
  const Profile profile = parse_profile(read_profile_file(file), file);
  perf::write_document(options.chart,
                       chart_page(profile, report::origin(arguments, build_commit())));
}

int run_jobs(const TuneOptions& options, const std::vector<std::string>& arguments) {
  if (!options.chart.empty()) report::require_charts("--chart");
  perf::check_writable(options.chart);
  const SweepPlan plan = plan_of(options, arguments);
  const auto ranks = ranks_of(options);
  profile_to_continue(plan);  // refuses a bad file once, before anything starts
  check_json(options, ranks);
  const bool text = prints_text(options.json);
  if (text) say_how_long(plan, ranks);
  if (!options.where.given() && !plan.accepts_load)
    await_quiet_machine("tune", options.quiet, seconds_of(plan, ranks), !text);
  const Load load{options.under_load};
  for (const int number : ranks) {
    const int status = launcher::launch(job_of(number, options.where, arguments));
    if (status != 0) {
      launcher::complain("tune: ended early; {} has the cells that were finished\n", plan.file);
      return status;
    }
  }
  write_chart(options, plan.file, arguments);
  return 0;
}

std::string file_of(const TuneOptions& options) {
  return options.output.empty() ? usual_file() : options.output;
}

int check(const TuneOptions& options) {
  const Profile profile = parse_profile(read_profile_file(options.check), options.check);
  const auto findings = check_profile(profile, Fingerprint::of(Machine::discover()));
  for (const std::string& finding : findings) perf::print_folded("{}\n", finding);
  std::size_t cells = 0;
  for (const MeasuredGroup& group : profile.groups) cells += group.cells.size();
  perf::print_folded("{}: {} groups, {} cells, {} findings\n", options.check, profile.groups.size(),
                     cells, findings.size());
  return findings.empty() ? 0 : 1;
}

int write_export(const TuneOptions& options) {
  const std::string file = file_of(options);
  fmt::print("{}", export_profile(parse_profile(read_profile_file(file), file),
                                  *tuning_format_named(options.format)));
  return 0;
}

int run_tune(const CLI::App& command, const TuneOptions& options,
             const std::vector<std::string>& arguments) {
  check_host_options(command, options.where);
  if (!options.check.empty()) return check(options);
  if (!options.judged.empty()) return judge_profiles(options.judged), 0;
  if (!options.format.empty()) return write_export(options);
  const Launch launch = detect_launch(process_environment());
  if (launch.size > 1 || std::getenv("CAPSTAN_RANK"))
    return sweep_as_rank(plan_of(options, arguments));
  return run_jobs(options, arguments);
}

/// The collectives whose calls have one length, except the barrier.
std::vector<std::string> tuned_collectives() {
  std::vector<std::string> names;
  for (const Collective collective : all_collectives())
    if (!has_counts(collective) && collective != Collective::barrier)
      names.emplace_back(name_of(collective));
  return names;
}

constexpr const char* tune_footer =
    "Examples:\n"
    "  capstan tune                                   all cores, six collectives, 8 bytes to 16M\n"
    "  capstan tune all_reduce --sizes 8,1K,64K,1M,16M -n 2,4\n"
    "  capstan tune --hosts node1:2,node2:2 --chart tuned.html\n"
    "  capstan tune -n 8 --device cuda                calls in streams of GPUs\n"
    "  capstan tune --under-load './my_computation'   beside a computation on the same cores\n"
    "  capstan tune --check profile.json              what is wrong with a profile\n"
    "  capstan tune --judge first.json,second.json    how well the model chooses here\n"
    "  capstan tune --export openmpi4 > rules.conf    for mpirun --mca "
    "coll_tuned_use_dynamic_rules\n"
    "                            1 --mca coll_tuned_dynamic_rules_filename rules.conf\n\n"
    "Every candidate (algorithm and protocol) runs in turns; those four times as slow as the best\n"
    "are dropped after two turns. Then the blocks of the best one are halved for as long as\n"
    "that helps. The library finds the profile by itself on this machine, unless --output puts it\n"
    "elsewhere: then CAPSTAN_PROFILE names it. `capstan explain` shows what became of it.\n"
    "confidence is the share of turns in which the winner was within 5 % of the fastest. A cell\n"
    "below 50 %, or that was measured while other programs ran (twice, if need be), decides\n"
    "nothing: the model and trials do, and the same command measures it again.\n"
    "Exports name, for each size, the fastest algorithm that the other library has as well.";

}  // namespace

void add_tune_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command = app.add_subcommand("tune", "Measure what is the fastest here, for later runs");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("collectives", options->collectives, "Collectives")
      ->delimiter(',')
      ->check(CLI::IsMember(tuned_collectives()))
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "Bytes of the largest buffer, comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Numbers of ranks on this host (default: one per core)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_from(2, 4096));
  add_host_options(*command, options->where);
  add_quiet_options(*command, options->quiet, true);
  command->add_option("--seconds", options->seconds, "How long each cell is measured, about")
      ->check(seconds_to_measure())
      ->capture_default_str();
  command
      ->add_option("--device", options->vendor,
                   "Measure calls by kernels, with buffers in memory of GPUs, cuda or hip: each "
                   "rank takes the next one, and several share one where there are fewer")
      ->check(CLI::IsMember({"cuda", "hip"}));
  command->add_option("-o,--output", options->output,
                      "The profile (default: the user's, capstan/profiles/ID.json in "
                      "XDG_CONFIG_HOME or ~/.config); with --export the one to read");
  command->add_flag("--restart", options->restart,
                    "Measure again what the file has; otherwise only what it lacks");
  command->add_option("--under-load", options->under_load,
                      "A shell command that runs beside, again and again");
  add_json_option(*command, options->json);
  auto* chart = command->add_option("--chart", options->chart,
                                    "At the end write the profile as an HTML page of diagrams");
  auto* check = command->add_option("--check", options->check, "Look for faults in this profile");
  command
      ->add_option(
          "--judge", options->judged,
          "Compare the model's choices with what this profile measured. With several files "
          "(comma-separated) a cell counts as worse only if it is so in all, and the "
          "first one's choices are judged by the others")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(check)
      ->excludes(chart);
  command
      ->add_option("--export", options->format,
                   "Print the profile for another library: nccl (tuner CSV), openmpi4, openmpi6 "
                   "(JSON) or ucc (UCC_TL_UCP_TUNE)")
      ->check(CLI::IsMember({"nccl", "openmpi4", "openmpi6", "ucc"}))
      ->excludes(check)
      ->excludes(chart);
  check->excludes(chart);
  command->footer(tune_footer);
  command->callback([options, command, &status, &arguments] {
    status = run_tune(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
