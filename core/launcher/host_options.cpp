#include "core/launcher/host_options.hpp"

#include <filesystem>
#include <system_error>

namespace capstan::launcher {

std::vector<HostSlots> HostOptions::places(int ranks) const {
  if (!hosts.empty()) return first_slots(parse_hosts(hosts), ranks);
  if (!hostfile.empty()) return first_slots(read_hostfile(hostfile), ranks);
  return {};
}

void HostOptions::apply_to(LaunchOptions& launch) const {
  launch.hosts = places(launch.ranks);
  if (!launch.hosts.empty()) launch.ranks = ranks_on(launch.hosts);
  launch.agent = agent;
  // Neither is needed on one host, where a folder may be gone and /proc missing.
  std::error_code unknown;
  launch.capstan =
      capstan.empty() ? std::filesystem::read_symlink("/proc/self/exe", unknown).string() : capstan;
  launch.directory =
      directory.empty() ? std::filesystem::current_path(unknown).string() : directory;
}

}  // namespace capstan::launcher
