// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/mpi/door.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/launcher/daemon.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "core/tools/launcher/remote_shell.hpp"

namespace capstan::cli {
namespace {

struct RunOptions {
  launcher::LaunchOptions launch;
  std::string bind = "core";
  double timeout = 0;
  double grace = 3;
  std::vector<std::string> environment;
  launcher::HostOptions where;
  bool mpi = false;
};

constexpr const char* run_examples =
    "Examples:\n"
    "  capstan run -n 4 -- ./train --epochs 3                    four ranks here\n"
    "  capstan run --hosts node1:4,node2:4 -- ./train            eight on two hosts, through ssh\n"
    "  capstan run --hostfile nodes -n 6 --env OMP_NUM_THREADS=2 -- ./train\n"
    "  capstan run --hosts a:2,b:2 --agent \"ip netns exec {host}\" -- ./train\n"
    "  capstan run --mpi -n 4 -- ./program         a program of MPI, by the mpirun of its MPI\n\n"
    "Each rank finds CAPSTAN_RANK, CAPSTAN_SIZE and what it needs to join in its environment:\n"
    "Communicator::from_environment() does the rest. When a rank fails, the others have half a\n"
    "second to say what they noticed; then they are ended, unless --keep-going was given. Its "
    "exit\n"
    "status becomes that of the job. Rank 0 reads standard input, unless that is a terminal.\n\n"
    "On other hosts, the program and Capstan are expected at the same paths as here; ranks get\n"
    "the CAPSTAN_ variables that are set here and those of --env. They meet at this host, at the\n"
    "address that CAPSTAN_INTERFACE chooses (`capstan doctor` shows which one).";

std::chrono::milliseconds milliseconds(double seconds) {
  return time_limit_of(seconds).value_or(std::chrono::milliseconds{0});
}

/// Parses NAME=VALUE, or NAME, which takes the value in this environment.
std::pair<std::string, std::string> variable(const std::string& entry) {
  const std::size_t equals = entry.find('=');
  if (equals == 0 || entry.empty())
    throw InvalidArgument("--env " + entry + ": expected NAME=VALUE or NAME");
  if (equals != std::string::npos) return {entry.substr(0, equals), entry.substr(equals + 1)};
  const char* value = std::getenv(entry.c_str());
  if (!value)
    throw InvalidArgument("--env " + entry + ": it is not set here; expected NAME=VALUE or NAME");
  return {entry, value};
}

launcher::LaunchOptions finished(RunOptions options) {
  launcher::LaunchOptions& launch = options.launch;
  options.where.apply_to(launch);
  if (launch.ranks == 0) throw CLI::RequiredError("--ranks, --hosts or --hostfile");
  launch.bind = options.bind == "core";
  if (options.timeout > 0) launch.timeout = milliseconds(options.timeout);
  launch.grace = milliseconds(options.grace);
  for (const std::string& entry : options.environment)
    launch.environment.push_back(variable(entry));
  return launch;
}

/// A program of MPI is started by the launcher of its MPI, which has options of its own.
void run_program_of_mpi(const CLI::App& command, const RunOptions& options) {
  refuse_options(command,
                 {"--hosts", "--hostfile", "--agent", "--capstan", "--directory", "--bind", "--tag",
                  "--timeout", "--grace", "--keep-going", "--store-port"},
                 "with --mpi the program is started by its MPI's mpirun, which has such options of "
                 "its own: capstan mpi -- mpirun OPTIONS PROGRAM");
  if (options.launch.ranks == 0) throw CLI::RequiredError("--ranks");
  for (const std::string& entry : options.environment) {
    const auto [name, value] = variable(entry);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  become_mpi_job(options.launch.ranks, options.launch.command);
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("run", "Start a program as N ranks, on one host or several");
  const auto options = std::make_shared<RunOptions>();
  options->launch.ranks = 0;  // 0: the option was not given
  command
      ->add_option("-n,--ranks", options->launch.ranks,
                   "Number of ranks; with hosts, at most their places")
      ->check(number_from(1, 4096));
  add_host_options(*command, options->where);
  command->add_option("--bind", options->bind, "Bind each rank to a core, or leave it free")
      ->check(CLI::IsMember({"core", "none"}))
      ->capture_default_str();
  command->add_flag("--tag,!--no-tag", options->launch.tag_lines,
                    "Put [rank] before each line of output (the default)");
  command
      ->add_option("--env", options->environment,
                   "NAME=VALUE for the ranks, or NAME to pass on; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--timeout", options->timeout, "End the job after this many seconds")
      ->check(positive_seconds());
  command->add_option("--grace", options->grace, "Seconds between SIGTERM and SIGKILL")
      ->capture_default_str()
      ->check(seconds_from_zero());
  command->add_flag("--keep-going", options->launch.keep_going,
                    "Do not end the other ranks when one fails; the exit status still tells");
  command
      ->add_option(
          "--store-port", options->launch.store_port,
          "Port where the ranks meet; 0, and several hosts, let the system choose. Without "
          "it, ranks of this host meet at a local socket")
      ->check(number_from(0, 65535));
  command->add_flag("--mpi", options->mpi,
                    "The program is one of MPI: the mpirun of the MPI that it links starts it, on "
                    "this host, with Capstan's collectives");
  command->add_option("program", options->launch.command, "The program and its arguments, after --")
      ->required();
  command->footer(run_examples);
  command->callback([options, command, &status] {
    if (options->mpi) run_program_of_mpi(*command, *options);
    check_host_options(*command, options->where);
    status = launcher::launch(finished(*options));
  });

  // Hidden command: `capstan run` starts it on other hosts.
  auto* daemon = app.add_subcommand("daemon", "Start ranks for a launcher on another host");
  daemon->group("");
  daemon->callback([&status] { status = launcher::serve_launcher(CAPSTAN_VERSION); });

  // Hidden command: rsh_script() starts it on other hosts.
  auto* shell = app.add_subcommand("shell", "Run a shell command that is given in hexadecimal");
  shell->group("");
  const auto text = std::make_shared<std::string>();
  shell->add_option("command", *text)->required();
  shell->callback([text] { launcher::become_shell(*text); });
}

}  // namespace capstan::cli
