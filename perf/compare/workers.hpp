#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "perf/compare/testbed.hpp"

namespace capstan::perf {

/// One configuration of one peer, or of Capstan or the bound, that takes part in a comparison.
struct WorkerSpec {
  std::string name;           ///< "openmpi-sm"
  std::string peer_name;      ///< "openmpi": the better of its configurations counts
  std::string configuration;  ///< what was chosen, for the record
  std::filesystem::path program{};
  std::vector<std::string> launcher;  ///< starts `ranks` copies of what follows it
  std::vector<std::string> arguments{};
  std::vector<std::pair<std::string, std::string>> environment{};

  std::vector<std::string> command() const;
};

inline constexpr const char* own_name = "capstan";
inline constexpr const char* bound_name = "bound";

/// Capstan, the bound of the machine or of the wire, and all configurations of these peers
/// (openmpi, mpich, gloo). Throws InvalidArgument for a peer that is not known, or not there with
/// what to install.
std::vector<WorkerSpec> workers_of(const std::vector<std::string>& peers, const TestBed& testbed);

}  // namespace capstan::perf
