// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/tools/launcher/launcher.hpp"

namespace capstan::launcher {

/// The hosts on which ranks start, and how.
struct HostOptions {
  std::string hosts, hostfile;
  std::string agent = "ssh -oBatchMode=yes -- {host}";
  std::string capstan, directory;  ///< paths on the hosts; empty: as here

  /// Whether any hosts are named; without, all is on this host.
  bool given() const { return !hosts.empty() || !hostfile.empty(); }
  /// The first `ranks` places of these hosts, all of them if `ranks` is 0; none without hosts.
  /// Throws InvalidArgument.
  std::vector<HostSlots> places(int ranks) const;
  /// Fills in the hosts of the ranks of `launch` and the agent that starts them there; with hosts,
  /// also the number of ranks.
  void apply_to(LaunchOptions& launch) const;
};

}  // namespace capstan::launcher
