// SPDX-License-Identifier: Apache-2.0

// Robust statistics of measured values.

#include "perf/measure/statistics.hpp"

#include <gtest/gtest.h>

namespace capstan::perf {
namespace {

TEST(Statistics, OfOneValueAreThatValue) {
  const Statistics one{{3.5}};
  EXPECT_EQ(one.least(), 3.5);
  EXPECT_EQ(one.median(), 3.5);
  EXPECT_EQ(one.quantile(0.99), 3.5);
  EXPECT_EQ(one.spread(), 0);
}

TEST(Statistics, DoNotDependOnTheOrderOfTheValues) {
  const Statistics five{{50, 10, 40, 20, 30}};
  EXPECT_EQ(five.least(), 10);
  EXPECT_EQ(five.median(), 30);
  EXPECT_EQ(five.quantile(0.25), 20);
  EXPECT_EQ(five.quantile(0.75), 40);
  EXPECT_EQ(five.quantile(1), 50);
  EXPECT_EQ(five.spread(), 20.0 / 30);
}

TEST(Statistics, TakeTheNearestValueAndTheGreaterOfTwo) {
  const Statistics four{{1, 2, 3, 4}};
  EXPECT_EQ(four.median(), 3);
  EXPECT_EQ(four.quantile(0.49), 2);
  EXPECT_EQ(four.quantile(0.16), 1);
  EXPECT_EQ(four.quantile(0.17), 2);
}

TEST(Statistics, AreNotMovedByAFewThatWereDisturbed) {
  const Statistics calm{{10, 11, 12, 13, 14, 15, 16, 17, 18}};
  const Statistics disturbed{{10, 11, 12, 13, 14, 15, 16, 17, 1e9}};
  EXPECT_EQ(disturbed.median(), calm.median());
  EXPECT_EQ(disturbed.spread(), calm.spread());
}

TEST(Statistics, StayWithinTheValues) {
  const Statistics two{{1, 2}};
  EXPECT_EQ(two.quantile(-3), 1);
  EXPECT_EQ(two.quantile(7), 2);
  EXPECT_EQ((Statistics{{0, 0, 5}}.spread()), 0);
}

TEST(Statistics, OfNothingAreRefused) {
  EXPECT_THROW(Statistics{{}}, std::invalid_argument);
}

}  // namespace
}  // namespace capstan::perf
