// SPDX-License-Identifier: Apache-2.0

// Calls that are described once and started again and again.

#include "capstan/async/persistent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

Settings persistent_settings() {
  Settings settings;
  settings.timeout = 60s;
  return settings;
}

TEST(Persistent, CallsRunOnWhatTheirBuffersHoldAtEachStart) {
  auto world = Communicator::local_world(3, persistent_settings());
  std::vector<std::vector<float>> data(3, std::vector<float>(1000));
  std::vector<PersistentCall> sums;
  for (std::size_t rank = 0; rank < 3; ++rank)
    sums.emplace_back(world[rank], request::in_place(Collective::all_reduce, data[rank]));
  EXPECT_TRUE(sums[0].is_completed()) << "nothing has been started";
  EXPECT_NO_THROW(sums[0].wait());
  for (int step = 1; step <= 20; ++step) {
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      std::ranges::fill(data[rank], static_cast<float>(step));
      works.push_back(sums[rank].start());
    }
    ASSERT_TRUE(Work::wait_all(works, Deadline::in(60s)));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      sums[rank].wait();
      EXPECT_THAT(data[rank], Each(3.0F * static_cast<float>(step)));
    }
  }
}

TEST(Persistent, CallsAreRefusedWhenTheyAreMade) {
  auto world = Communicator::local_world(1, persistent_settings());
  std::vector<float> input(4), output(5);
  EXPECT_THROW((PersistentCall{world[0], request::of(Collective::all_reduce, input, output)}),
               InvalidArgument);
}

TEST(Persistent, ACallThatIsUnderWayIsNotStartedAgain) {
  auto world = Communicator::local_world(2, persistent_settings());
  std::vector<float> mine(4), other(4);
  PersistentCall sum{world[0], request::in_place(Collective::all_reduce, mine)};
  sum.start();
  try {
    sum.start();
    FAIL() << "it has been started twice";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("before it has ended"));
  }
  const std::vector<Work> works{sum.work(), world[1].start_all_reduce(other)};
  EXPECT_TRUE(Work::wait_all(works, Deadline::in(60s)));
  EXPECT_NO_THROW(sum.start());
  EXPECT_TRUE(
      Work::wait_all(std::vector{sum.work(), world[1].start_all_reduce(other)}, Deadline::in(60s)));
}

}  // namespace
}  // namespace capstan
