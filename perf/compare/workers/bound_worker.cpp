// What the machine or the wire allows, as one more worker.

#include "perf/compare/workers/memory_bound.hpp"
#include "perf/compare/workers/wire_bound.hpp"

int main() {
  return capstan::perf::play([](capstan::Store& store) {
    const auto launch = capstan::detect_launch(capstan::process_environment());
    const bool one_host = launch.local_size == launch.size;
    return one_host ? capstan::perf::memory_bound(launch, store)
                    : capstan::perf::wire_bound(launch, store);
  });
}
