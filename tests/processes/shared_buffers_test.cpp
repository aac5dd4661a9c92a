// SPDX-License-Identifier: Apache-2.0

// Communicator::allocate among real processes: buffers of both kinds in every collective, and what
// becomes of them when something goes wrong.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/registry.hpp"
#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"
#include "tests/variants_of.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

CommandResult share(int ranks, const std::string& what, const Environment& environment = {}) {
  return run_command({CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks), "--timeout", "300", "--",
                      WORKER_PROGRAM, "shared", what},
                     environment);
}

class SharedBuffers : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(leftovers(), ::testing::IsEmpty()); }
};

TEST_F(SharedBuffers, OfAllKindsInAllCollectives) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto result = share(ranks, "kinds", {{"CAPSTAN_CHUNK", "64k"}});
    EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
  }
}

TEST_F(SharedBuffers, WithAProgressThreadOverHostsAndStaged) {
  for (const Environment& environment :
       {Environment{{"CAPSTAN_PROGRESS_THREAD", "1"}},
        Environment{{"CAPSTAN_VIRTUAL_HOSTS", "2"}, {"CAPSTAN_NETWORK", "tcp"}},
        Environment{{"CAPSTAN_SINGLE_COPY", "0"}}}) {
    const auto result = share(3, "kinds", environment);
    EXPECT_EQ(result.status, 0) << environment.front().first << ": " << result.output;
  }
}

/// Every algorithm in every protocol that uses peers' buffers, of all kinds; then with allocated
/// ones alone, where going through the kernel would be the end. Each second under a sanitizer.
TEST_F(SharedBuffers, AreUsedByEveryAlgorithm) {
  int number = 0;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      for (const std::string& variant : variants_of(algorithm)) {
        const auto protocol = variant.substr(std::min(variant.find('/'), variant.size()));
        if (protocol != "/read_input" && protocol != "/read_buffers" && protocol != "/write_output")
          continue;
        if (sanitized && number++ % 2 != 0) continue;
        const std::string name{name_of(collective)};
        for (const char* what : {"kinds", "load"}) {
          if (sanitized && std::string_view{what} == "load") continue;
          const auto result = share(3, fmt::format("{}:{}", what, name),
                                    {{"CAPSTAN_ALGORITHM", fmt::format("{}:{}", name, variant)},
                                     {"CAPSTAN_CHUNK", "64k"}});
          EXPECT_EQ(result.status, 0)
              << what << ", " << name << ", " << variant << ": " << result.output;
        }
      }
}

/// That the test above would have noticed.
TEST_F(SharedBuffers, AreNotUsedLikeOthers) {
  for (const char* variant : {"direct/read_input", "direct/read_buffers", "direct/write_output"}) {
    const auto result = share(2, "fetch:all_reduce",
                              {{"CAPSTAN_ALGORITHM", fmt::format("all_reduce:{}", variant)}});
    EXPECT_NE(result.status, 0) << variant << ": " << result.output;
  }
}

TEST_F(SharedBuffers, AreTriedInSeveralWays) {
  for (const char* thread : {"0", "1"})
    for (const int ranks : {2, 4}) {
      const auto result = share(ranks, "try", {{"CAPSTAN_PROGRESS_THREAD", thread}});
      EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
    }
}

/// The plain ones for the first time in round 460.
TEST_F(SharedBuffers, AreTriedAgainWhileOthersAreInFlight) {
  const auto two = share(2, sanitized ? "review:100" : "review:600");
  EXPECT_EQ(two.status, 0) << two.output;
  const auto three = share(3, "review:50", {{"CAPSTAN_PROGRESS_THREAD", "1"}});
  EXPECT_EQ(three.status, 0) << three.output;
}

TEST_F(SharedBuffers, AreSent) {
  const auto result = share(3, "send");
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(SharedBuffers, AreTakenBackWhilePeersUseThem) {
  for (const char* variant : {"all_reduce:direct/read_input", "all_reduce:direct/write_output"})
    for (const char* thread : {"0", "1"}) {
      const auto result =
          share(3, sanitized ? "cancel:50" : "cancel:150",
                {{"CAPSTAN_ALGORITHM", variant}, {"CAPSTAN_PROGRESS_THREAD", thread}});
      EXPECT_EQ(result.status, 0) << variant << ": " << result.output;
    }
}

TEST_F(SharedBuffers, ComeAndGoInTheWorldAndInGroups) {
  for (const int ranks : {2, 3, 5})
    for (const char* thread : {"0", "1"}) {
      const auto result = share(ranks, sanitized ? "stress:100" : "stress:400",
                                {{"CAPSTAN_PROGRESS_THREAD", thread}});
      EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
    }
}

/// While peers read its buffer: they name it, and none of them dies of it.
TEST_F(SharedBuffers, OfARankThatIsKilled) {
  for (const char* count : {"5000", "1000000"}) {
    // The shell hides the death from the launcher, which would end the others.
    const auto result =
        run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "sh", "-c",
                     fmt::format("{} shared kill:{}; true", WORKER_PROGRAM, count)});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 2) << count << ": " << result.output;
  }
}

TEST_F(SharedBuffers, OfDifferentLengthsAreNamedOnEveryRank) {
  const auto result = share(3, "mismatch", {{"CAPSTAN_TIMEOUT", "20"}});
  EXPECT_EQ(occurrences(result.output, "Mismatch:"), 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("all_reduce(500000 x f32, sum)"));
  EXPECT_THAT(result.output, HasSubstr("all_reduce(1000000 x f32, sum)"));
}

TEST_F(SharedBuffers, AreMeasured) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_gather", "-n", "2", "-b", "64k", "-e", "256k",
                   "--rounds", "2", "--seconds", "0.01", "--buffers", "allocated", "--json"});
  EXPECT_EQ(result.status, 0) << result.output;
  // Once for all, and with each of the three lengths.
  EXPECT_EQ(occurrences(result.output, "\"buffers\": \"allocated\""), 4) << result.output;
}

}  // namespace
}  // namespace capstan
