#include "core/cli/commands.hpp"
#include "core/cli/launcher/launcher.hpp"
#include "core/ir/error.hpp"

namespace capstan::cli {
namespace {

struct RunOptions {
  LaunchOptions launch;
  std::string bind = "core";
  double timeout = 0;
  double grace = 3;
  std::vector<std::string> environment;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

LaunchOptions finished(RunOptions options) {
  options.launch.bind = options.bind == "core";
  if (options.timeout > 0) options.launch.timeout = milliseconds(options.timeout);
  options.launch.grace = milliseconds(options.grace);
  for (const std::string& entry : options.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidArgument("--env " + entry + ": expected NAME=VALUE");
    options.launch.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return options.launch;
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("run", "Start a program as N ranks on this host");
  const auto options = std::make_shared<RunOptions>();
  command->add_option("-n,--ranks", options->launch.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 4096));
  command->add_option("--bind", options->bind, "Bind each rank to a core, or leave it free")
      ->check(CLI::IsMember({"core", "none"}))
      ->capture_default_str();
  command->add_flag("--tag,!--no-tag", options->launch.tag_lines,
                    "Put [rank] before each line of output (the default)");
  command->add_option("--env", options->environment, "NAME=VALUE for the ranks; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--timeout", options->timeout, "End the job after this many seconds")
      ->check(CLI::PositiveNumber);
  command->add_option("--grace", options->grace, "Seconds between SIGTERM and SIGKILL")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--store-port", options->launch.store_port,
                   "Port of the store where the ranks meet; 0 lets the system choose")
      ->capture_default_str();
  command->add_option("program", options->launch.command, "The program and its arguments, after --")
      ->required();
  command->footer(
      "Example:\n"
      "  capstan run -n 4 -- ./train --epochs 3\n\n"
      "Each rank finds CAPSTAN_RANK, CAPSTAN_SIZE and what it needs to join in its environment:\n"
      "Communicator::from_environment() does the rest. When a rank fails, the others are ended "
      "and\n"
      "its exit status becomes that of the job. Rank 0 reads standard input, unless that is a\n"
      "terminal.");
  command->callback([options, &status] { status = launch(finished(*options)); });
}

}  // namespace capstan::cli
