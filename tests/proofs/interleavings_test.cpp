// SPDX-License-Identifier: Apache-2.0

// The verifier is held to what really happens when ranks advance in random order and puts land at
// random moments.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "algorithms/registry.hpp"
#include "core/schedule/proof/prove.hpp"
#include "tests/proofs/builds.hpp"
#include "tests/proofs/interleaving.hpp"
#include "tests/proofs/mutant.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using testing::Interleaving;
using testing::Mutant;

class Interleavings : public ::testing::TestWithParam<const Algorithm*> {};

Interleaving::Options options_of(const Algorithm& algorithm, bool in_place) {
  return {.in_place = in_place,
          .synchronizes = algorithm.guarantees.synchronizes,
          .ordered = algorithm.guarantees.ordered};
}

/// Runs until the first failure; empty when there is none.
std::string first_failure(const Algorithm& algorithm, const Shape& shape,
                          const ByRank<Schedule>& schedules, bool in_place, int runs) {
  const Contract contract{algorithm.collective, shape, schedules.size()};
  for (int seed = 1; seed <= runs; ++seed) {
    const auto failure =
        Interleaving{contract, schedules.elements(), options_of(algorithm, in_place),
                     static_cast<std::uint64_t>(seed)}
            .run();
    if (!failure.empty()) return failure + " with seed " + std::to_string(seed);
  }
  return "";
}

TEST_P(Interleavings, AProvenAlgorithmIsRightInAllOfThem) {
  for (const int ranks : {1, 2, 3, 5, 6, 8, 11})
    for (const Shape& shape : awkward_shapes(GetParam()->collective, ranks))
      for (const bool in_place : {false, true}) {
        const auto schedules = schedules_of(*GetParam(), ranks, shape);
        EXPECT_EQ(first_failure(*GetParam(), shape, schedules, in_place, 3), "")
            << ranks << " ranks, " << shape.count.value() << " elements, root " << shape.root;
      }
}

/// One of the awkward shapes in which something is moved.
Shape random_shape(Collective collective, int ranks, std::mt19937_64& random) {
  const auto shapes = awkward_shapes(collective, ranks);
  for (;;) {
    const Shape& shape = shapes[random() % shapes.size()];
    if (collective == Collective::barrier ||
        Contract{collective, shape, ranks}.extent() > Elements{0})
      return shape;
  }
}

/// A verifier may refuse what happens to go well, but never pass what goes wrong.
void refuses_mutants(const Algorithm& algorithm, int rounds) {
  std::mt19937_64 random{2025};
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 6);
    const auto options = options_of(algorithm, random() % 2 == 0);
    const Shape shape = random_shape(algorithm.collective, ranks, random);
    auto schedules = schedules_of(algorithm, ranks, shape);
    const Rank victim{static_cast<int>(random() % static_cast<unsigned>(ranks))};
    Mutant mutant{schedules[victim]};
    const std::string change = mutant.mutate(random, ranks) + ", " + mutant.mutate(random, ranks);
    const auto changed = mutant.build(ranks);
    if (!changed) continue;

    schedules[victim] = *changed;
    const std::string failure = first_failure(algorithm, shape, schedules, options.in_place, 10);
    if (failure.empty()) continue;
    ++wrong;
    EXPECT_FALSE(proof::prove_schedules(algorithm.collective, shape, schedules,
                                        {.in_place = options.in_place,
                                         .synchronizes = options.synchronizes,
                                         .claims = {.ordered = options.ordered}})
                     .ok())
        << "rank " << victim.value() << " of " << ranks << ", root " << shape.root << ", " << change
        << ": " << failure;
  }
  EXPECT_GT(wrong, rounds / 8) << "too few mutants go wrong to tell";
}

TEST_P(Interleavings, AMutantThatGoesWrongIsRefused) {
  refuses_mutants(*GetParam(), sanitized ? 40 : 100);
}
TEST_P(Interleavings, ManyMutantsThatGoWrongAreRefused) {
  refuses_mutants(*GetParam(), sanitized ? 40 : 400);
}

/// Whether some run goes wrong when the algorithm is said to promise this.
bool goes_wrong(const Algorithm& algorithm, const Guarantees& promised) {
  Algorithm liar = algorithm;
  liar.guarantees = promised;
  const Shape shape{.count = Elements{5}, .root = has_root(algorithm.collective) ? 1 : 0};
  return !first_failure(liar, shape, schedules_of(algorithm, 4, shape), false, 20).empty();
}

TEST(Promises, OneThatIsNotKeptShows) {
  const auto& broadcast = algorithm_named(Collective::broadcast, "flat");
  EXPECT_FALSE(goes_wrong(broadcast, {}));
  EXPECT_TRUE(goes_wrong(broadcast, {.synchronizes = true}));
  const auto& reduce = algorithm_named(Collective::reduce, "binomial");
  EXPECT_FALSE(goes_wrong(reduce, {}));
  EXPECT_TRUE(goes_wrong(reduce, {.ordered = true}));
}

INSTANTIATE_TEST_SUITE_P(All, Interleavings, ::testing::ValuesIn(every_algorithm()),
                         [](const auto& test) { return full_name(*test.param); });

}  // namespace
}  // namespace capstan
