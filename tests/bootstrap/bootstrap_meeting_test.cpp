// SPDX-License-Identifier: Apache-2.0

// Where members of a communicator meet its new ranks: waits that have no hope any more end early.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "capstan/error.hpp"
#include "core/bootstrap/meeting.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Longer than the time that a test may take.
constexpr auto longest = 1h;

MeetingPoint named(const std::string& name) {
  return meeting_at({.id = {},
                     .name = fmt::format("{}, process {}", name, ::getpid()),
                     .secret = "the secret of these tests"},
                    {});
}

struct NoHope {};

TEST(MeetingPoints, AMemberWaitsForItsHostAsLongAsThereIsHope) {
  int looks = 0;
  const auto look = [&] {
    if (++looks == 3) throw NoHope{};
  };
  EXPECT_THROW(attend_meeting(named("nobody hosts it"), 1, 3, Deadline::in(longest), look), NoHope);
  EXPECT_EQ(looks, 3);
}

TEST(MeetingPoints, ANewRankTakesTheNextMeetingWhereOneEnds) {
  const MeetingPoint meeting = named("ends early");
  int seat = -1, after = 0;
  std::jthread newcomer{[&] {
    const MeetingSeat taken = take_seat(meeting, -1, Deadline::in(longest));
    seat = taken.rank, after = taken.growth.after;
  }};
  {
    const auto first = host_meeting(meeting, 0, 2, Deadline::in(longest));
  }
  const auto second = host_meeting(meeting, 0, 3, Deadline::in(longest));
  announce_growth(*second, {2, 3});
  newcomer.join();
  EXPECT_EQ(seat, 2);
  EXPECT_EQ(after, 3);
  EXPECT_TRUE(is_taken(*second, 2));
}

}  // namespace
}  // namespace capstan
