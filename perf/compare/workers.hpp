// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "perf/compare/testbed.hpp"

namespace capstan::perf {

/// One participant of a comparison: a configuration of a peer, Capstan, or the bound.
struct WorkerSpec {
  std::string name;           ///< "openmpi-sm"
  std::string peer_name;      ///< "openmpi": the better of its configurations counts
  std::string configuration;  ///< its options in words, for the table's head
  std::filesystem::path program{};
  std::vector<std::string> launcher;  ///< starts `ranks` copies of the command that follows
  std::vector<std::string> arguments{};
  std::vector<std::pair<std::string, std::string>> environment{};

  std::vector<std::string> command() const;
};

/// A file of the build tree or of the installation that this program belongs to: "bin/capstan".
/// Empty if there is none.
std::filesystem::path find_installed(const std::filesystem::path& name);

inline constexpr const char* own_name = "capstan";
inline constexpr const char* bound_name = "bound";

/// Capstan, the bound of the machine or of the wire, and all configurations of `peers`: openmpi,
/// mpich and gloo, openmpi5, mpich5 and intelmpi from `scripts/setup --peers`, or all of them that
/// are here. Throws InvalidArgument for a peer that is unknown, not built or not installed.
std::vector<WorkerSpec> workers_of(const std::vector<std::string>& peers, const TestBed& testbed);

}  // namespace capstan::perf
