// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// The most memory that any rank's process has had resident, buffers and all; shared memory counts
/// for each process that has touched it.
struct MemoryUse {
  std::uint64_t most_resident = 0;  ///< bytes
};

/// All ranks call it, at the end.
MemoryUse measure_memory_use(Communicator& world);
std::string to_line(const MemoryUse& use);
nlohmann::json to_json(const MemoryUse& use);

}  // namespace capstan::perf
