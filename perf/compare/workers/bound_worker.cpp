// SPDX-License-Identifier: Apache-2.0

// The bound as a worker: the limit of the machine, or of the wire between hosts.

#include "perf/compare/workers/memory_bound.hpp"
#include "perf/compare/workers/wire_bound.hpp"

int main() {
  return capstan::perf::run_worker([](capstan::Store& store) {
    const auto launch = capstan::detect_launch(capstan::process_environment());
    const bool one_host = launch.local_size == launch.size;
    return one_host ? capstan::perf::memory_bound(launch, store)
                    : capstan::perf::wire_bound(launch, store);
  });
}
