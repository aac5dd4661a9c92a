// The verifier is held to what really happens when ranks advance in random order and puts land at
// random moments.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "algorithms/registry.hpp"
#include "core/ir/proof/prove.hpp"
#include "tests/proof/builds.hpp"
#include "tests/verify/interleaving.hpp"
#include "tests/verify/mutant.hpp"

namespace capstan {
namespace {

using testing::Interleaving;
using testing::Mutant;

class Interleavings : public ::testing::TestWithParam<const Algorithm*> {};

/// Runs until the first failure; empty when there is none.
std::string first_failure(const std::vector<Schedule>& schedules, bool in_place, int runs) {
  for (int seed = 1; seed <= runs; ++seed) {
    const auto failure =
        Interleaving{schedules, {.in_place = in_place}, static_cast<std::uint64_t>(seed)}.run();
    if (!failure.empty()) return failure + " with seed " + std::to_string(seed);
  }
  return "";
}

TEST_P(Interleavings, AProvenAlgorithmIsRightInAllOfThem) {
  for (const int ranks : {1, 2, 3, 5, 6, 8, 11})
    for (const std::uint64_t count : {0, 1, 5, 13})
      for (const bool in_place : {false, true}) {
        const auto schedules = schedules_of(*GetParam(), ranks, Elements{count});
        EXPECT_EQ(first_failure(schedules, in_place, 5), "")
            << ranks << " ranks, " << count << " elements";
      }
}

/// A verifier may refuse what happens to go well, but never pass what goes wrong.
TEST_P(Interleavings, AMutantThatGoesWrongIsRefused) {
  std::mt19937_64 random{2025};
  int wrong = 0;
  for (int round = 0; round < 400; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 6);
    const bool in_place = random() % 2 == 0;
    const Shape shape{.count = Elements{1 + random() % 13}};
    auto schedules = schedules_of(*GetParam(), ranks, shape);
    const std::size_t victim = random() % schedules.size();
    Mutant mutant{schedules[victim]};
    const std::string change = mutant.mutate(random, ranks) + ", " + mutant.mutate(random, ranks);
    const auto changed = mutant.build(ranks);
    if (!changed) continue;

    schedules[victim] = *changed;
    const std::string failure = first_failure(schedules, in_place, 10);
    if (failure.empty()) continue;
    ++wrong;
    EXPECT_FALSE(
        proof::prove_schedules(Collective::all_reduce, shape, schedules, {.in_place = in_place})
            .ok())
        << "rank " << victim << " of " << ranks << " " << change << ": " << failure;
  }
  EXPECT_GT(wrong, 100) << "too few mutants go wrong to tell";
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Interleavings, ::testing::ValuesIn([] {
                           std::vector<const Algorithm*> all;
                           for (const auto& a : algorithms(Collective::all_reduce))
                             all.push_back(&a);
                           return all;
                         }()),
                         [](const auto& test) { return std::string{test.param->name}; });

}  // namespace
}  // namespace capstan
