// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>

#include "capstan/error.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/ps/flight_record.hpp"
#include "core/tools/cli/ps/report.hpp"
#include "core/tools/launcher/complain.hpp"
#include "perf/measure/folded.hpp"

namespace capstan::cli {
namespace {

struct PsOptions {
  std::vector<int> processes;
  std::string json, flight_record;
  bool stacks = false;
};

constexpr const char* ps_footer =
    "Looks at the shared memory of running jobs from outside, for half a second: the jobs do\n"
    "not notice, and need not answer. Ranks that are threads of one process share no\n"
    "memory with others, and are not seen; Communicator::report() tells of them.\n\n"
    "state  waits      for other ranks, for longer than 20 ms\n"
    "       silent     waits, but does not run: no processor, or stuck in the kernel\n"
    "       stopped    by SIGSTOP or a debugger\n"
    "       calls      has made calls within the half second\n"
    "       in a call  has begun a call, and moved nothing since\n"
    "       elsewhere  is outside of Capstan: it computes, or does not come\n"
    "       gave up    its time-out has passed\n"
    "       left gone  its communicator, or its process, has ended\n\n"
    "calls  of the world that the rank has finished\n\n"
    "A process may be read by its user if kernel.yama.ptrace_scope is 0, and by root.\n\n"
    "Examples:\n"
    "  capstan ps\n"
    "  capstan ps 4711           the job of this process\n"
    "  capstan ps 4711 --stacks  and where in its program the guilty rank is\n"
    "  capstan ps --json\n"
    "  capstan ps 4711 --flight-record records && torchfrtrace records\n";

bool contains(const Job& job, int process) {
  return std::ranges::any_of(job.here, [process](const RankInJob& rank) {
    return rank.process == process ||
           std::ranges::any_of(
               rank.mappers, [process](const Mapper& mapper) { return mapper.process == process; });
  });
}

/// The jobs of the processes that were named. Throws InvalidArgument for one that is in none.
void select(std::vector<Job>& jobs, const std::vector<int>& processes) {
  if (processes.empty()) return;
  for (const int process : processes)
    if (std::ranges::none_of(jobs, [&](const Job& job) { return contains(job, process); }))
      throw InvalidArgument(fmt::format(
          "process {} is no rank of a job that can be read: see `capstan ps`", process));
  std::erase_if(jobs, [&](const Job& job) {
    return std::ranges::none_of(processes,
                                [&](const int process) { return contains(job, process); });
  });
}

/// A rank that is missing is on another host, or about to come.
FoundJobs find_started_jobs() {
  constexpr std::chrono::milliseconds time_to_start{300};
  FoundJobs found = find_jobs();
  const auto is_complete = [](const Job& job) {
    return job.here.size() == static_cast<std::size_t>(job.ranks);
  };
  if (std::ranges::all_of(found.jobs, is_complete)) return found;
  std::this_thread::sleep_for(time_to_start);
  return find_jobs();
}

void run_ps(const PsOptions& options) {
  constexpr std::chrono::milliseconds time{500};
  FoundJobs found = find_started_jobs();
  if (found.forbidden > 0)
    launcher::say_on_stderr(perf::folded(
        fmt::format("ps: {} more processes use Capstan, but may not be read: run it as root, or as "
                    "their user with kernel.yama.ptrace_scope=0\n",
                    found.forbidden),
        perf::line_width()));
  select(found.jobs, options.processes);
  if (!options.flight_record.empty() && found.jobs.size() != 1)
    throw InvalidArgument(
        fmt::format("--flight-record is of one job, and {} run here: name a process of it, as "
                    "`capstan ps` shows",
                    found.jobs.size()));
  auto document = nlohmann::json::array();
  for (std::size_t i = 0; i < found.jobs.size(); ++i) {
    SeenJob seen = look_at(found.jobs[i], time);
    if (options.stacks) read_stacks(seen);
    document.push_back(to_json(seen));
    if (!options.flight_record.empty()) write_flight_records(seen, options.flight_record);
    if (prints_text(options.json))
      fmt::print("{}{}", i > 0 ? "\n" : "", to_text(seen, perf::line_width()));
  }
  if (found.jobs.empty() && prints_text(options.json))
    fmt::print("No rank runs here that can be read.\n");
  write_json(options.json, document);
}

}  // namespace

void add_ps_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "ps", "Show the jobs that run here, who waits for whom, and who keeps a job waiting");
  const auto options = std::make_shared<PsOptions>();
  command->add_option("process", options->processes, "Only the jobs of these processes")
      ->check(number_from(1, std::numeric_limits<int>::max()));
  add_json_option(*command, options->json);
  command
      ->add_option(
          "--flight-record", options->flight_record,
          "Write the last 256 calls of each rank to this folder, as PyTorch's flight recorder "
          "does: `torchfrtrace FOLDER` tells which rank left the others")
      ->type_name("FOLDER");
  command->add_flag("--stacks", options->stacks,
                    "Show what the threads of ranks that keep others waiting are doing, by py-spy, "
                    "eu-stack or gdb, which stop them for a moment");
  command->footer(ps_footer);
  command->callback([options, &status] {
    run_ps(*options);
    status = 0;
  });
}

}  // namespace capstan::cli
