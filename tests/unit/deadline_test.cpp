// SPDX-License-Identifier: Apache-2.0

// Time limits of any length, in any unit.

#include "capstan/deadline.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <limits>

namespace capstan {
namespace {

using namespace std::chrono_literals;

template <class Limit>
class EveryUnit : public ::testing::Test {};
using Units =
    ::testing::Types<std::chrono::nanoseconds, std::chrono::microseconds, std::chrono::milliseconds,
                     std::chrono::seconds, std::chrono::minutes, std::chrono::hours,
                     std::chrono::duration<double>, std::chrono::duration<double, std::nano>,
                     std::chrono::duration<float, std::milli>>;
TYPED_TEST_SUITE(EveryUnit, Units);

TYPED_TEST(EveryUnit, ForEverIsNotAtOnce) {
  EXPECT_TRUE(Deadline::in(TypeParam::max()).is_never());
  EXPECT_FALSE(Deadline::in(TypeParam::max() / 2).expired());
  using Count = typename TypeParam::rep;
  if (std::numeric_limits<Count>::has_infinity) {
    EXPECT_TRUE(Deadline::in(TypeParam{std::numeric_limits<Count>::infinity()}).is_never());
  }
  EXPECT_TRUE(TimeLimit{TypeParam::max()}.deadline().is_never());
  EXPECT_TRUE(TimeLimit{std::optional{TypeParam::max()}}.deadline().is_never());
}

TYPED_TEST(EveryUnit, NothingAndLessIsAtOnce) {
  for (const TypeParam limit : {TypeParam::zero(), TypeParam{-1}, TypeParam::min() / 2}) {
    if (limit > TypeParam::zero()) continue;  // the least number above 0 of floating point
    EXPECT_TRUE(Deadline::in(limit).expired());
    EXPECT_EQ(Deadline::in(limit).limit(), 0ns);
    EXPECT_TRUE(TimeLimit{limit}.deadline().expired());
  }
}

TEST(TimeLimit, NoneIsForEver) {
  EXPECT_TRUE(TimeLimit{}.deadline().is_never());
  EXPECT_TRUE(TimeLimit{std::nullopt}.deadline().is_never());
  EXPECT_TRUE(TimeLimit{std::optional<std::chrono::seconds>{}}.deadline().is_never());
}

TEST(TimeLimit, IsRoundedUpAndHasALongest) {
  EXPECT_EQ(time_limit_of(0.0001), 1ms);
  EXPECT_EQ(time_limit_of(2.5), 2500ms);
  EXPECT_EQ(time_limit_of(0), 0ms);
  for (const double seconds : {1e9, 1e10, 1e300, std::numeric_limits<double>::infinity()})
    EXPECT_EQ(time_limit_of(seconds), longest_time_limit);
  for (const double none : {-1e-9, -1.0, -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE(time_limit_of(none));
  EXPECT_FALSE(Deadline::in(longest_time_limit).expired());
}

TEST(TimeLimit, IsToldInEveryLocaleAlike) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    std::setlocale(LC_ALL, locale);  // where it is installed
    EXPECT_EQ(Deadline::in(250ms).budget(), "0.25 s");
    EXPECT_EQ(Deadline::in(30s).budget(), "30 s");
  }
  std::setlocale(LC_ALL, before.c_str());
}

}  // namespace
}  // namespace capstan
