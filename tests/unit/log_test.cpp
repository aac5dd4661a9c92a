// SPDX-License-Identifier: Apache-2.0

// The library's log: its lines, where they go, and how often.

#include "core/platform/net/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/platform/net/rate_limited_warnings.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(Log, GoesToStandardErrorAndNotIntoTheOutputOfThePrograms) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  RateLimitedWarnings{"refused"}.warn("a\nstranger", "it said \x1b[2Jboo");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("refused a\\x0astranger: it said \\x1b[2Jboo"));
}

TEST(Log, LinesAreSafeToPrint) {
  ::testing::internal::CaptureStderr();
  log().warn("a path: {}", "/tmp/\x1b[2Jx");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a path: /tmp/\\x1b[2Jx\n"));
}

/// Counts the warnings of `cause` of one moment.
int said(RateLimitedWarnings& warnings, RateLimit::Clock::time_point now, const std::string& cause,
         int times) {
  int count = 0;
  for (int i = 0; i < times; ++i) count += warnings.text_at(now, "somebody", cause).has_value();
  return count;
}

TEST(RateLimitedWarnings, OfACauseAFewComeAtOnceAndThenOneInTenSeconds) {
  RateLimitedWarnings warnings{"refused"};
  const auto begin = RateLimit::Clock::now();
  EXPECT_EQ(said(warnings, begin, "noise", 1000), 5);
  EXPECT_EQ(said(warnings, begin + 9s, "noise", 1000), 0);
  EXPECT_THAT(warnings.text_at(begin + 10s, "somebody", "noise").value_or(""),
              EndsWith(" (1995 more in between)"));
  EXPECT_EQ(said(warnings, begin + 10s, "noise", 1000), 0);
  EXPECT_EQ(said(warnings, begin + 24h, "noise", 1000), 5) << "after a rest as at the begin";
}

TEST(RateLimitedWarnings, OneCauseHidesNoOther) {
  RateLimitedWarnings warnings{"refused"};
  const auto begin = RateLimit::Clock::now();
  said(warnings, begin, "noise", 100'000);
  EXPECT_THAT(warnings.text_at(begin, "somebody", "a wrong secret").value_or(""),
              EndsWith("a wrong secret"));
}

TEST(RateLimitedWarnings, EverNewCausesDoNotFillTheLog) {
  RateLimitedWarnings warnings{"refused"};
  const auto begin = RateLimit::Clock::now();
  int count = 0;
  for (int i = 0; i < 10'000; ++i) count += said(warnings, begin, std::to_string(i), 1);
  EXPECT_EQ(count, 40);
  EXPECT_EQ(said(warnings, begin + 10s, "another", 1), 1);
}

}  // namespace
}  // namespace capstan
