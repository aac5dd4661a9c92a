// SPDX-License-Identifier: Apache-2.0

// The record that a rank publishes about its job, for those who look from outside.

#include "core/engine/control/job_record.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace capstan {
namespace {

ByRank<Process> on(std::initializer_list<const char*> hosts) {
  ByRank<Process> processes;
  for (const char* const host : hosts) processes.push_back({.host = host, .id = 1, .space = "s"});
  return processes;
}

std::optional<JobMember> published(const JobMember& member) {
  auto control = std::make_unique<Control>();
  publish(control->job, member);
  return read(control->job);
}

std::vector<std::string> texts(const std::vector<RanksOnHost>& hosts) {
  std::vector<std::string> texts;
  for (const RanksOnHost& each : hosts) texts.push_back(to_string(each));
  return texts;
}

TEST(JobRecords, TellWhereOtherRanksAre) {
  const auto processes = on({"a", "b", "b", "c", "a", "b", "c"});
  const auto member = published({7, 4, 7, 12, other_hosts(processes, Rank{4})});
  ASSERT_TRUE(member);
  EXPECT_THAT(texts(member->elsewhere),
              ::testing::ElementsAre("ranks 1 to 2 and 5 are on b", "ranks 3 and 6 are on c"));
  EXPECT_TRUE(member->elsewhere[0].has(2));
  EXPECT_FALSE(member->elsewhere[0].has(3));
  EXPECT_THAT(texts(other_hosts(on({"a", "b", "b", "b"}), Rank{0})),
              ::testing::ElementsAre("ranks 1 to 3 are on b"));
  EXPECT_THAT(texts(other_hosts(on({"a", "b"}), Rank{1})),
              ::testing::ElementsAre("rank 0 is on a"));
  EXPECT_THAT(other_hosts(on({"a", "a"}), Rank{0}), ::testing::IsEmpty());
}

TEST(JobRecords, LeaveOutHostsThatHaveNoRoom) {
  ByRank<Process> processes;
  for (int rank = 0; rank < 200; ++rank)
    processes.push_back({.host = fmt::format("host-{}", rank), .id = 1});
  const auto member = published({7, 0, 200, 12, other_hosts(processes, Rank{0})});
  ASSERT_TRUE(member);
  ASSERT_GT(member->elsewhere.size(), 10U);
  EXPECT_LT(member->elsewhere.size(), 199U);
  EXPECT_EQ(to_string(member->elsewhere.back()),
            fmt::format("rank {0} is on host-{0}", member->elsewhere.size()));
}

TEST(JobRecords, WithWrongPlacesSayNothingOfThem) {
  for (const char* const wrong : {"1-2", "1-2 b", "x b;", "2-1 b;", "1-9 b;", "-1-2 b;", ";;;",
                                  " b;", "1 b;", "99999999999-1 b;"}) {
    auto control = std::make_unique<Control>();
    publish(control->job, {7, 0, 4, 12});
    std::strcpy(control->job.elsewhere, wrong);
    const auto member = read(control->job);
    ASSERT_TRUE(member);
    EXPECT_THAT(member->elsewhere, ::testing::IsEmpty()) << wrong;
  }
  auto control = std::make_unique<Control>();
  publish(control->job, {7, 0, 4, 12});
  std::memset(control->job.elsewhere, ';', sizeof control->job.elsewhere);  // without an end
  EXPECT_TRUE(read(control->job));
}

}  // namespace
}  // namespace capstan
