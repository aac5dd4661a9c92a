// SPDX-License-Identifier: Apache-2.0

// Which way calls on devices take: by facts about the ranks, and by the length of a call.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/communicator/device_agreement.hpp"
#include "core/communicator/device_calls.hpp"
#include "tests/devices/device_path.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(DeviceAgreement, DependsOnFactsAlone) {
  DeviceFacts rank{
      .host = 1, .process = 1, .multiprocessors = 100, .processes_overlap = 1, .queues = 200};
  rank.vendor = ShortText<8>{"CUDA"};
  rank.address = ShortText<32>{"0000:01:00.0"};
  EXPECT_EQ(obstacle_among(std::vector{rank, rank}), "");
  EXPECT_EQ(lanes_for(std::vector{rank}), most_lanes);
  EXPECT_EQ(lanes_for(std::vector(10, rank)), 5);
  EXPECT_EQ(lanes_for(std::vector(64, rank)), 1);
  EXPECT_THAT(obstacle_among(std::vector(65, rank)), HasSubstr("at most 64"));
  rank.reserved = 60;
  EXPECT_EQ(lanes_for(std::vector(10, rank)), 4);
  DeviceFacts other = rank;
  other.process = 2;
  EXPECT_EQ(lanes_for(std::vector{rank, other}), 0) << "each process has reserved 60";
  EXPECT_THAT(obstacle_among(std::vector{rank, other}), HasSubstr("too few"));
  other.host = 2;
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "ranks are on several hosts");
  rank.reserved = 0;
  other = rank;
  other.process = 2;
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "");
  rank.processes_overlap = other.processes_overlap = 0;
  EXPECT_EQ(obstacle_among(std::vector{rank, rank}), "");
  EXPECT_THAT(obstacle_among(std::vector{rank, rank, other}),
              StartsWith("ranks 0 and 2 are processes that share device 0000:01:00.0"));
  other.address = ShortText<32>{"0000:02:00.0"};
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "");
  rank.queues = other.queues = 8;
  rank.more_queues = ShortText<160>{"set QUEUES=32 before the program starts"};
  EXPECT_EQ(obstacle_among(std::vector(4, rank)), "");
  EXPECT_THAT(obstacle_among(std::vector(5, rank)), HasSubstr("set QUEUES=32"));
  rank.queues = 1;
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "") << "a device for each";
  other = rank;
  other.vendor = ShortText<8>{"HIP"};
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "some ranks use CUDA, others HIP");
  other = rank;
  other.context = 5;
  EXPECT_THAT(obstacle_among(std::vector{rank, other}), HasSubstr("two contexts"));
  other.obstacle = ShortText<200>{"no kernels"};
  EXPECT_EQ(obstacle_among(std::vector{rank, other}), "rank 1: no kernels");
}

TEST(DeviceChoices, AreTheSameOnAllRanksAndNeedNoBuffersOfPeers) {
  using enum DeviceLink;
  constexpr std::pair<int, DeviceLink> ranks_and_links[] = {
      {1, memory}, {2, direct}, {5, memory}, {8, bus}, {20, direct}, {64, memory}};
  for (const Collective collective : on_devices)
    for (const std::uint64_t count : {1U, 100U, 10'000U, 10'000'000U})
      for (const auto& [ranks, link] : ranks_and_links) {
        const Call call{.collective = collective, .shape = {.count = Elements{count}}};
        const Choice choice = choice_on_devices(call, ranks, link);
        EXPECT_FALSE(reads_buffers(choice.protocol)) << to_string(call);
        EXPECT_TRUE(!in_packets(choice.protocol) || fits_packets(*choice.algorithm, choice.protocol,
                                                                 Hosts{ranks}, call, device_slots))
            << to_string(call);
      }
}

TEST(DeviceChoices, PacketsAreForShortCallsAndFewRanks) {
  const auto is_in_packets = [](std::uint64_t bytes, int ranks) {
    const Call call{.shape = {.count = Elements{bytes / sizeof(float)}}};
    return in_packets(choice_on_devices(call, ranks, DeviceLink::memory).protocol);
  };
  EXPECT_TRUE(is_in_packets(256 << 10, 2));
  EXPECT_TRUE(is_in_packets(64 << 10, 8));
  EXPECT_FALSE(is_in_packets(256 << 10, 8));
  EXPECT_FALSE(is_in_packets(8, 1)) << "nothing is sent";
}

TEST(DeviceChoices, TheFasterTheLinksTheLongerCallsTakeOneStep) {
  using enum DeviceLink;
  const auto name = [](std::uint64_t bytes, DeviceLink link) {
    const Call call{.shape = {.count = Elements{bytes / sizeof(float)}}};
    return choice_on_devices(call, 4, link).algorithm->name;
  };
  EXPECT_EQ(name(32 << 10, bus), "flat");
  EXPECT_NE(name(256 << 10, bus), "flat");
  EXPECT_EQ(name(256 << 10, direct), "flat");
  EXPECT_NE(name(4 << 20, direct), "flat");
  EXPECT_EQ(name(4 << 20, memory), "flat");
  EXPECT_NE(name(16 << 20, memory), "flat");
}

TEST(DeviceChoices, FollowTheRulesThatDevicesCanFollow) {
  const auto rules = AlgorithmRules::parse(
      "all_reduce:0-1k:ring/staged,1k-8k:direct/read_input,8k-64k:two_level,8k-inf:ring/staged/4");
  const auto choice = [&](std::uint64_t bytes) {
    const Call call{.shape = {.count = Elements{bytes / sizeof(float)}}};
    return choice_on_devices(call, 4, DeviceLink::memory, rules);
  };
  EXPECT_EQ(choice(512).algorithm->name, "ring");
  EXPECT_EQ(choice(512).protocol, Protocol::staged);
  EXPECT_EQ(choice(4096).algorithm->name, "direct");
  EXPECT_TRUE(in_packets(choice(4096).protocol)) << "buffers of peers cannot be read";
  EXPECT_EQ(choice(9000).algorithm->name, "ring") << "there is one host";
  EXPECT_EQ(choice(9000).times_shorter, 4U);
  const Call other{.collective = Collective::broadcast, .shape = {.count = Elements{10}}};
  EXPECT_EQ(choice_on_devices(other, 4, DeviceLink::memory, rules).reason, "");
}

/// Programs are proven before they run, too, where the settings say so.
TEST_F(OnDevices, RulesChooseWhatRuns) {
  Settings settings = bounded_settings();
  settings.algorithm = "all_reduce:ring/staged;broadcast:chain/staged/2";
  settings.prove = true;
  on_ranks(
      3,
      [](StreamCollectives& streams) {
        EXPECT_THAT(way_of_a_call(streams), HasSubstr(" lanes: ring staged, asked for by a rule"));
        for (const std::size_t count : {1U, 100U, 50'000U}) {
          const DeviceArray<float> data{
              std::vector<float>(count, static_cast<float>(streams.rank()))};
          streams.on(nullptr).broadcast(data.span(), 2);
          streams.on(nullptr).all_reduce(data.span());
          EXPECT_THAT(data.values(), ::testing::Each(6));
          const auto call = request::in_place(Collective::broadcast, data.span());
          EXPECT_THAT(streams.explain(call), HasSubstr("chain staged, in blocks of 1/2 of"));
        }
      },
      settings);
}

}  // namespace
}  // namespace capstan
