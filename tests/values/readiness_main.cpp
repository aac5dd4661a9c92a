// SPDX-License-Identifier: Apache-2.0

// Usage: values_readiness SEEDS
//
// Runs collectives and messages on async values that become ready in random orders, on the ranks of
// `capstan run` or another launcher. Exits 1 if a result is wrong.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/values/readiness.hpp"

int main(int argc, char** argv) try {
  const std::uint64_t seeds = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (seeds == 0) {
    std::fprintf(stderr, "usage: values_readiness SEEDS\n");
    return 2;
  }
  auto communicator = capstan::Communicator::from_environment();
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const std::string fault = capstan::values::fault_under_random_readiness(communicator, seed);
    if (fault.empty()) continue;
    std::fprintf(stderr, "%s\n", fault.c_str());
    return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
