// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "topology/io.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {

/// A machine and the placement of ranks on it.
struct Scene {
  Machine machine;
  IoTopology io;
  bool is_here;                   ///< whether it is the machine that this process runs on
  bool ranks_asked;               ///< false: one rank per core, for the chunk size only
  std::vector<CpuSet> placement;  ///< entry r for rank r

  const Core& core_of_rank(std::size_t rank) const {
    return *machine.core_of(*placement[rank].begin());
  }
};

/// "32 MiB", or that it is not known.
std::string size_text(Bytes bytes);

void print_text(const Scene& scene);
nlohmann::json to_json(const Scene& scene);
/// The machine as nested boxes, with its devices and ranks.
std::string to_svg(const Scene& scene);

}  // namespace capstan::cli
