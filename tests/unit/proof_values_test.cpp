// SPDX-License-Identifier: Apache-2.0

// The contents of elements in a proof: sums as small numbers, and their terms when they are asked
// for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/schedule/proof/value.hpp"

namespace capstan::proof {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Contribution of_rank(int rank) {
  return {.block = 0, .rank = Rank{rank}, .index = Elements{3}};
}

TEST(ProofValues, ASumOfManySourcesTakesAsLittleMemoryAsItHasTerms) {
  constexpr int sources = 50'000;  // whose partial sums have 1,250,000,000 terms together
  Values values;
  ValueId sum = values.contribution(of_rank(0));
  for (int rank = 1; rank < sources; ++rank)
    sum = values.sum(sum, values.contribution(of_rank(rank)));
  sum = values.summed(sum);
  EXPECT_TRUE(values.is_ordered(sum));
  EXPECT_TRUE(values.is_one_reduction(sum));
  ASSERT_EQ(values.terms(sum).size(), static_cast<std::size_t>(sources));
  EXPECT_EQ(values.terms(sum).back(), std::pair(of_rank(sources - 1), 1));
}

TEST(ProofValues, TheStepInWhichTermsAreAddedTellsSumsApart) {
  Values values;
  const auto leaf = [&](int rank) { return values.contribution(of_rank(rank)); };
  const auto stored = [&](ValueId a, ValueId b) { return values.summed(values.sum(a, b)); };
  const ValueId in_one_step = values.summed(values.sum(values.sum(leaf(0), leaf(1)), leaf(2)));
  const ValueId in_two_steps = stored(stored(leaf(0), leaf(1)), leaf(2));
  EXPECT_FALSE(values.same_bits(in_one_step, in_two_steps));
  EXPECT_EQ(values.terms(in_one_step), values.terms(in_two_steps));
  EXPECT_TRUE(values.is_one_reduction(in_one_step));
  EXPECT_FALSE(values.is_one_reduction(in_two_steps));
  EXPECT_TRUE(values.same_bits(stored(leaf(0), leaf(1)), stored(leaf(1), leaf(0))));
  EXPECT_FALSE(values.is_ordered(stored(leaf(1), leaf(0))));
  EXPECT_FALSE(
      values.same_bits(stored(leaf(0), leaf(1)), values.completed(stored(leaf(0), leaf(1)))));
}

TEST(ProofValues, TermsSayHowOftenEachContributionWasAdded) {
  Values values;
  const ValueId one = values.contribution(of_rank(1)), two = values.contribution(of_rank(2));
  EXPECT_THAT(values.terms(values.sum(values.sum(two, one), two)),
              ElementsAre(Pair(of_rank(1), 1), Pair(of_rank(2), 2)));
  ValueId doubled = one;
  for (int times = 0; times < 100; ++times) doubled = values.summed(values.sum(doubled, doubled));
  EXPECT_THAT(values.terms(doubled),
              ElementsAre(Pair(of_rank(1), std::numeric_limits<int>::max())));
  EXPECT_TRUE(values.terms(Values::nothing).empty());
}

}  // namespace
}  // namespace capstan::proof
