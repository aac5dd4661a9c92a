// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::soak {

/// The testbed of hosts beside which this process runs (scripts/hosts), for many runs one after the
/// other.
class Testbed {
 public:
  /// Throws std::runtime_error when there is none.
  static Testbed of_environment();

  int hosts() const { return static_cast<int>(names_.size()); }
  const std::string& address(int host) const { return addresses_[at(host)]; }
  /// The command that starts another one on a host, in the same process.
  std::vector<std::string> prefix(int host) const;

  void cut(int host) const { set_cable(host, "down"); }
  void restore(int host) const { set_cable(host, "up"); }
  /// Limits the rate at which a host sends and receives from now on.
  void limit_rate(int host, std::uint32_t kbit) const;
  void unlimit_rate(int host) const;

  /// Processes on its hosts, their sockets, and what has a name in /dev/shm: empty when nothing is
  /// left of a run.
  std::vector<std::string> leftovers() const;

 private:
  Testbed() = default;
  static std::size_t at(int host) { return static_cast<std::size_t>(host); }
  std::string network_switch() const;
  void set_cable(int host, const std::string& state) const;

  std::vector<std::string> names_, addresses_;
};

}  // namespace capstan::soak
