// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/host_options.hpp"

#include <unistd.h>

#include "core/tools/cli/options.hpp"
#include "perf/measure/progress_bar.hpp"

namespace capstan::cli {

void add_host_options(CLI::App& command, launcher::HostOptions& options) {
  auto* hosts = command.add_option("--hosts", options.hosts,
                                   "Hosts and how many ranks each takes: node1:4,node2:4");
  command
      .add_option("--hostfile", options.hostfile,
                  "The same from a file with a host per line: node1:4, or node1 slots=4")
      ->excludes(hosts);
  command.add_option("--agent", options.agent, "What starts a program on a host")
      ->capture_default_str();
  command.add_option("--capstan", options.capstan,
                     "Where this program is on the hosts (as here, if not given)");
  command.add_option("--directory", options.directory,
                     "Where ranks start on the hosts (as here, if not given)");
}

launcher::LaunchOptions job_of(int ranks, const launcher::HostOptions& options,
                               std::vector<std::string> arguments) {
  launcher::LaunchOptions job{.ranks = ranks,
                              .command = std::move(arguments),
                              .tag_lines = false,
                              .environment = {},
                              .timeout = {}};
  options.apply_to(job);
  if (const char* const terminal = ::ttyname(STDERR_FILENO); terminal && job.hosts.empty())
    job.environment.emplace_back(perf::terminal_variable, terminal);
  job.command.insert(job.command.begin(), job.capstan);
  return job;
}

void check_host_options(const CLI::App& command, const launcher::HostOptions& options) {
  if (!options.given())
    refuse_options(command, {"--agent", "--capstan", "--directory"},
                   "it is for other hosts: name them with --hosts, or leave it out");
}

}  // namespace capstan::cli
