// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/memory_use.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <span>

namespace capstan::perf {

MemoryUse measure_memory_use(Communicator& world) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  MemoryUse use{static_cast<std::uint64_t>(usage.ru_maxrss) << 10};
  world.all_reduce(std::span{&use.most_resident, 1}, ReduceOp::max);
  return use;
}

std::string to_line(const MemoryUse& use) {
  return fmt::format("# memory: {:.1f} MiB resident at most (largest process)\n",
                     static_cast<double>(use.most_resident) / (1 << 20));
}

nlohmann::json to_json(const MemoryUse& use) {
  return {{"most_resident_bytes", use.most_resident}};
}

}  // namespace capstan::perf
