// SPDX-License-Identifier: Apache-2.0

// That each sum is added in the order of ranks, by one reduction or several, is proven, not
// believed.

#include <gtest/gtest.h>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"
#include "core/schedule/proof/value.hpp"

namespace capstan {
namespace {

using proof::ValueId;

/// Every algorithm that reduces, with and without the promise: whether the proof holds.
void hold_to(bool Guarantees::* promise, const auto& declares) {
  for (const Collective collective : all_collectives()) {
    if (!reduces(collective)) continue;
    for (const Algorithm& declared : algorithms(collective)) {
      Algorithm algorithm = declared;
      algorithm.guarantees.*promise = true;
      bool holds = true;
      for (const Hosts& hosts :
           {Hosts{std::vector{0, 0, 1, 1}}, Hosts{std::vector{0, 0, 1, 1, 1}}}) {
        if (!algorithm.suits(hosts)) continue;
        const auto ranks = static_cast<std::size_t>(hosts.ranks());
        Shape shape{.count = Elements{ranks}};
        if (has_counts(collective))
          shape = {.count = Elements{0}, .counts = std::vector<Elements>(ranks, Elements{1})};
        holds = holds && prove_algorithm(algorithm, hosts, shape, ProvenBuffers::both).ok();
      }
      EXPECT_EQ(holds, declares(declared.guarantees))
          << name_of(collective) << " by " << declared.name;
    }
  }
}

TEST(RankOrderedSums, AreDeclaredByThoseOfWhichTheyAreProven) {
  hold_to(&Guarantees::rank_ordered_sum,
          [](const Guarantees& declared) { return declared.rank_ordered_sum; });
}

TEST(LeftFolds, AreDeclaredByThoseOfWhichTheyAreProven) {
  hold_to(&Guarantees::left_fold, [](const Guarantees& declared) {
    return declared.left_fold || declared.rank_ordered_sum;
  });
}

TEST(SumsOfHosts, AreDeclaredByThoseOfWhichTheyAreProven) {
  hold_to(&Guarantees::host_ordered_sum,
          [](const Guarantees& declared) { return declared.host_ordered_sum; });
}

class Sums : public ::testing::Test {
 protected:
  ValueId of(int rank) { return values.contribution({0, Rank{rank}, Elements{0}}); }
  /// One step's sum.
  ValueId step(std::initializer_list<ValueId> terms) {
    ValueId sum = *terms.begin();
    for (auto term = terms.begin() + 1; term != terms.end(); ++term) sum = values.sum(sum, *term);
    return values.summed(sum);
  }
  proof::Values values;
};

TEST_F(Sums, OfOneStepInTheOrderOfRanksAreOneReduction) {
  EXPECT_TRUE(values.is_one_reduction(of(0)));
  EXPECT_TRUE(values.is_one_reduction(step({of(0), of(1), of(2)})));
  EXPECT_TRUE(values.is_one_reduction(step({of(1), of(2)})));
}

TEST_F(Sums, OfSeveralStepsAreALeftFoldInTheOrderOfRanksOnly) {
  EXPECT_TRUE(values.is_left_fold(of(0)));
  EXPECT_TRUE(values.is_left_fold(step({of(0), of(1), of(2)})));
  EXPECT_TRUE(values.is_left_fold(step({step({of(0), of(1)}), of(2), of(3)})));
  EXPECT_FALSE(values.is_left_fold(step({of(0), step({of(1), of(2)})})));
  EXPECT_FALSE(values.is_left_fold(step({of(2), step({of(0), of(1)})})));
  EXPECT_FALSE(values.is_left_fold(step({step({of(1), of(0)}), of(2)})));
  EXPECT_FALSE(values.is_left_fold(step({step({of(0), of(1)}), of(3)})));
}

TEST_F(Sums, OfSeveralStepsOrAnotherOrderAreNot) {
  EXPECT_FALSE(values.is_one_reduction(step({step({of(0), of(1)}), of(2)})));
  EXPECT_FALSE(values.is_one_reduction(step({of(0), step({of(1), of(2)})})));
  EXPECT_FALSE(values.is_one_reduction(step({of(1), of(0)})));
  EXPECT_FALSE(values.is_one_reduction(step({of(0), of(2), of(1)})));
  EXPECT_FALSE(values.is_one_reduction(step({of(0), of(2)})));
}

TEST_F(Sums, ThatAreDividedAfterTheyWereStoredAreNot) {
  const ValueId open = values.sum(of(0), of(1));
  EXPECT_TRUE(values.is_one_reduction(values.summed(values.completed(open))));
  EXPECT_FALSE(values.is_one_reduction(values.completed(values.summed(open))));
  EXPECT_TRUE(values.is_left_fold(values.summed(values.completed(open))));
  EXPECT_FALSE(values.is_left_fold(values.completed(values.summed(open))));
}

}  // namespace
}  // namespace capstan
