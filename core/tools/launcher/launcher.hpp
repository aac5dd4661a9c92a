// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/launcher/host_list.hpp"

namespace capstan::launcher {

/// The options of `capstan run`.
struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;
  bool bind = true;       ///< each rank to a core of its own as far as there are enough
  bool tag_lines = true;  ///< "[rank] " before each line of output
  std::vector<std::pair<std::string, std::string>> environment;
  /// Where the ranks meet, 0: the system chooses. Without one, ranks of one host meet at a local
  /// socket.
  std::optional<std::uint16_t> store_port = {};
  std::optional<std::chrono::milliseconds> timeout;
  /// Between SIGTERM and SIGKILL when a job is ended.
  std::chrono::milliseconds grace{3000};
  bool keep_going = false;  ///< when a rank fails, the others continue

  /// The hosts of the ranks; empty: all run on this host.
  std::vector<HostSlots> hosts = {};
  /// A command that starts a program on {host}. A shell there may read it again, as with ssh.
  std::string agent = {};
  std::string capstan = {};    ///< the path of this program on the hosts
  std::string directory = {};  ///< where ranks start on the hosts
};

/// Starts the ranks, serves their store, forwards signals and output, and ends all ranks half a
/// second after one has failed. Returns the exit status for the shell: that of the first rank that
/// failed (128 + signal if one killed it), 124 after the timeout, 1 if a host is lost, 0 if all
/// went well. Nothing that was started outlives the call, nor the calling process. Throws
/// InvalidArgument or SystemError when the job cannot be started.
///
/// A daemon of this program starts and supervises the ranks of another host. It gets its orders and
/// the job's secret through the agent's standard input, where no other user sees them.
int launch(const LaunchOptions& options);

}  // namespace capstan::launcher
