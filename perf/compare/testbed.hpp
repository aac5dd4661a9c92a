// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"
#include "core/tools/launcher/launcher.hpp"

namespace capstan::perf {

/// The hosts of a comparison, the network between them and how programs are started there. All
/// workers use the same one.
class TestBed {
 public:
  /// `place` gives the number of ranks, the hosts and the agent that starts programs there. Without
  /// hosts all ranks run here. Throws InvalidArgument where no interface fits CAPSTAN_INTERFACE, or
  /// for an agent that mpirun cannot use; SystemError.
  explicit TestBed(const launcher::LaunchOptions& place);

  int ranks() const { return place_.ranks; }
  const std::vector<launcher::HostSlots>& hosts() const { return place_.hosts; }
  bool named() const { return !place_.hosts.empty(); }
  /// Whether the network is used at all.
  bool several_hosts() const { return place_.hosts.size() > 1; }
  /// The largest number of ranks on one host.
  int ranks_per_host() const;

  /// The interface that all libraries use between hosts, and this host's address there.
  const std::string& interface() const { return interface_; }
  const std::string& address() const { return address_; }

  /// `capstan run` with its options up to "--".
  std::vector<std::string> own_launcher() const;
  /// A program with the command line of rsh that uses the agent. It exists as long as this object,
  /// and only with hosts.
  std::string rsh() const;

  /// "a:1,b:1 over eth0".
  std::string text() const;

 private:
  launcher::LaunchOptions place_;
  std::string interface_, address_ = "127.0.0.1";
  FileDescriptor rsh_{};
};

}  // namespace capstan::perf
