// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/host_options.hpp"

#include <filesystem>
#include <system_error>

#include "core/tools/launcher/own_program.hpp"

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
  launch.capstan = capstan.empty() ? own_program().string() : capstan;
  std::error_code unknown;  // the folder may be gone, which does not matter on one host
  launch.directory =
      directory.empty() ? std::filesystem::current_path(unknown).string() : directory;
}

}  // namespace capstan::launcher
