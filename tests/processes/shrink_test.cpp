// SPDX-License-Identifier: Apache-2.0

// Ranks that die while the others agree on who is left: these continue, whatever happens when.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

/// SHRINK_SEEDS seeds, for those who search for longer than the suite may.
int seeds(int usual) {
  const char* const asked = std::getenv("SHRINK_SEEDS");
  return asked ? std::atoi(asked) : usual;
}

struct Links {
  const char* name;
  const char* hosts;
  const char* network;
};

class Shrinking : public ::testing::TestWithParam<Links> {};
INSTANTIATE_TEST_SUITE_P(Over, Shrinking,
                         ::testing::Values(Links{"SharedMemory", "1", "auto"},
                                           Links{"Tcp", "3", "tcp"}, Links{"Ofi", "3", "ofi"}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Shrinking, SurvivorsGoOnWheneverRanksDie) {
  const int count = seeds(sanitized ? 2 : 5);
  for (int seed = 0; seed < count; ++seed) {
    const CommandResult result =
        run_command({CAPSTAN_PROGRAM, "run", "-n", "6", "--keep-going", "--timeout", "120", "--",
                     WORKER_PROGRAM, "shrink", std::to_string(seed)},
                    {{"CAPSTAN_VIRTUAL_HOSTS", GetParam().hosts},
                     {"CAPSTAN_NETWORK", GetParam().network},
                     {"CAPSTAN_TIMEOUT", "60"}});
    EXPECT_EQ(occurrences(result.output, "four left"), 4) << "seed " << seed << result.output;
    EXPECT_EQ(occurrences(result.output, "two left"), 2) << "seed " << seed << result.output;
  }
  EXPECT_THAT(leftovers(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace capstan
