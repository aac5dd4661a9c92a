// SPDX-License-Identifier: Apache-2.0

// Which way calls on devices take: by facts about the ranks, and by the length of a call.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/communicator/device_agreement.hpp"
#include "core/communicator/device_plans.hpp"
#include "core/communicator/stream_tuning.hpp"
#include "core/engine/run/progress.hpp"
#include "core/schedule/selection/device_links.hpp"
#include "core/schedule/selection/selector.hpp"
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

Call on_device(std::uint64_t count, Collective collective = Collective::all_reduce) {
  return {
      .collective = collective, .shape = {.count = Elements{count}}, .memory = MemoryKind::device};
}

Choice choice_over(DeviceLink link, const Call& call, int ranks,
                   const AlgorithmRules& rules = AlgorithmRules{}) {
  return choose(call, ranks, rules, SumOrder::any, device_links(link, ranks));
}

Choice choice_of_bytes(DeviceLink link, std::uint64_t bytes, int ranks) {
  return choice_over(link, on_device(bytes / sizeof(float)), ranks);
}

TEST(DeviceChoices, NeedNoBuffersOfPeersAndFitTheSlotsOfLanes) {
  using enum DeviceLink;
  constexpr std::pair<int, DeviceLink> ranks_and_links[] = {
      {1, memory}, {2, direct}, {5, memory}, {8, bus}, {20, direct}, {64, memory}};
  for (const Collective collective : on_devices)
    for (const std::uint64_t count : {1U, 100U, 10'000U, 10'000'000U})
      for (const auto& [ranks, link] : ranks_and_links) {
        const Call call = on_device(count, collective);
        const Choice choice = choice_over(link, call, ranks);
        EXPECT_FALSE(reads_buffers(choice.protocol)) << to_string(call);
        EXPECT_TRUE(!in_packets(choice.protocol) || fits_packets(*choice.algorithm, choice.protocol,
                                                                 Hosts{ranks}, call, device_slots))
            << to_string(call);
      }
}

/// As measured on one H100: docs/lab-notebook.md, constants-of-devices.
TEST(DeviceChoices, PacketsAreForShortCallsAndFewRanks) {
  const auto is_in_packets = [](std::uint64_t bytes, int ranks) {
    return in_packets(choice_of_bytes(DeviceLink::memory, bytes, ranks).protocol);
  };
  EXPECT_TRUE(is_in_packets(8, 2));
  EXPECT_TRUE(is_in_packets(256 << 10, 2));
  EXPECT_TRUE(is_in_packets(64 << 10, 8));
  EXPECT_FALSE(is_in_packets(1 << 20, 2));
  EXPECT_FALSE(is_in_packets(1 << 20, 8));
}

/// The predictions for what was measured there lie within a factor of 1.6.
TEST(DeviceChoices, PredictionsAreNearWhatWasMeasured) {
  struct Measured {
    std::uint64_t bytes;
    std::array<double, 3> microseconds;  ///< of 2, 4 and 8 ranks
  };
  constexpr Measured all[] = {{256 << 10, {14.2, 21.1, 29.1}},
                              {1 << 20, {13.1, 25.4, 44.9}},
                              {4 << 20, {21.1, 54.7, 132}},
                              {16 << 20, {69, 161, 357}},
                              {256 << 20, {886, 2202, 5102}}};
  for (const Measured& measured : all)
    for (std::size_t i = 0; i < measured.microseconds.size(); ++i) {
      const double predicted =
          choice_of_bytes(DeviceLink::memory, measured.bytes, 2 << i).nanoseconds / 1000;
      EXPECT_LT(std::abs(std::log(predicted / measured.microseconds[i])), std::log(1.6))
          << measured.bytes << " bytes of " << (2 << i) << " ranks: " << predicted;
    }
}

TEST(DeviceChoices, TheFasterTheLinksTheLongerCallsTakeOneStep) {
  using enum DeviceLink;
  const auto name = [](std::uint64_t bytes, DeviceLink link) {
    return choice_of_bytes(link, bytes, 4).algorithm->name;
  };
  EXPECT_EQ(name(32 << 10, bus), "flat");
  EXPECT_NE(name(256 << 10, bus), "flat");
  EXPECT_EQ(name(256 << 10, direct), "flat");
  EXPECT_NE(name(4 << 20, direct), "flat");
  EXPECT_EQ(name(4 << 20, memory), "flat");
  EXPECT_NE(name(16 << 20, memory), "flat");
}

TEST(DeviceChoices, FollowRules) {
  const auto rules = AlgorithmRules::parse(
      "all_reduce:0-1k:ring/staged,1k-8k:direct/read_input,8k-64k memory=host:binomial_tree,"
      "8k-inf memory=device:ring/staged/4");
  const auto choice = [&](std::uint64_t bytes) {
    return choice_over(DeviceLink::memory, on_device(bytes / sizeof(float)), 4, rules);
  };
  EXPECT_EQ(choice(512).algorithm->name, "ring");
  EXPECT_EQ(choice(512).protocol, Protocol::staged);
  EXPECT_EQ(choice(4096).algorithm->name, "direct");
  EXPECT_FALSE(reads_buffers(choice(4096).protocol)) << "buffers of peers cannot be read";
  EXPECT_EQ(choice(9000).algorithm->name, "ring") << "its memory is no host's";
  EXPECT_EQ(choice(9000).times_shorter, 4U);
  Call of_host = on_device(9000 / sizeof(float));
  of_host.memory = MemoryKind::host;
  EXPECT_EQ(choose(of_host, 4, rules).algorithm->name, "binomial_tree");
  const Choice other =
      choice_over(DeviceLink::memory, on_device(10, Collective::broadcast), 4, rules);
  EXPECT_THAT(other.reason, StartsWith("least predicted time"));
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

/// The host may see later than the stream that calls have ended.
TEST_F(OnDevices, OtherRulesMayFollowAsSoonAsAStreamHasPassedItsCalls) {
  on_ranks(3, [&](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{std::vector<std::int32_t>(300, 1)};
    Stream stream{data.span().data()};
    StreamTuning tuning{streams};
    const char* const all[] = {"all_reduce:ring/staged", "all_reduce:flat", "all_reduce:direct"};
    for (int round = 0; round < 30; ++round) {
      for (std::size_t count = 1; count <= 300; count *= 7)
        streams.on(stream.get()).all_reduce(data.span().first(count), ReduceOp::max);
      {
        const Progress::Lock lock{*tuning.engine().progress()};  // nobody looks meanwhile
        EXPECT_EQ(stream.synchronize(), 0);
      }
      tuning.use_rules(AlgorithmRules::parse(all[round % 3]));
    }
    EXPECT_THAT(data.values(), ::testing::Each(1));
    EXPECT_EQ(streams.async_error(), nullptr);
  });
}

}  // namespace
}  // namespace capstan
