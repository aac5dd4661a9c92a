#include "core/cli/host_options.hpp"

#include <filesystem>

namespace capstan::cli {

std::vector<HostSlots> HostOptions::places(int ranks) const {
  if (!hosts.empty()) return first_slots(parse_hosts(hosts), ranks);
  if (!hostfile.empty()) return first_slots(read_hostfile(hostfile), ranks);
  return {};
}

void HostOptions::apply_to(LaunchOptions& launch) const {
  launch.hosts = places(launch.ranks);
  if (!launch.hosts.empty()) launch.ranks = ranks_on(launch.hosts);
  launch.agent = agent;
  launch.capstan =
      capstan.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : capstan;
  launch.directory = directory.empty() ? std::filesystem::current_path().string() : directory;
}

void add_host_options(CLI::App& command, HostOptions& options) {
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

}  // namespace capstan::cli
