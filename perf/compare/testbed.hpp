#pragma once

#include <string>
#include <vector>

#include "core/launcher/launcher.hpp"
#include "core/net/file_descriptor.hpp"

namespace capstan::perf {

/// Where a comparison takes place: which hosts, the wire between them and how programs are started
/// there, the same for all workers.
class TestBed {
 public:
  /// `place` says how many ranks, on which hosts and through which agent; no hosts: all ranks are
  /// here. Throws InvalidArgument where nothing fits CAPSTAN_INTERFACE, or for an agent that
  /// mpirun cannot use; SystemError.
  explicit TestBed(const cli::LaunchOptions& place);

  int ranks() const { return place_.ranks; }
  const std::vector<cli::HostSlots>& hosts() const { return place_.hosts; }
  bool named() const { return !place_.hosts.empty(); }
  /// Whether there is a wire at all.
  bool several_hosts() const { return place_.hosts.size() > 1; }
  /// How many ranks share a host at most.
  int ranks_per_host() const;

  /// The interface that all libraries use between hosts, and this host's address there.
  const std::string& interface() const { return interface_; }
  const std::string& address() const { return address_; }

  /// `capstan run` with its options up to "--".
  std::vector<std::string> own_launcher() const;
  /// A program that is called as rsh is and uses the agent, while this object lives; only with
  /// hosts.
  std::string rsh() const;

  /// For people: "a:1,b:1 over eth0".
  std::string text() const;

 private:
  cli::LaunchOptions place_;
  std::string interface_, address_ = "127.0.0.1";
  FileDescriptor rsh_{};
};

}  // namespace capstan::perf
