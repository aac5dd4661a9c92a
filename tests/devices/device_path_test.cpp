// SPDX-License-Identifier: Apache-2.0

// Collectives in streams by the device executor: results, order, which way a call goes.

#include "tests/devices/device_path.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/lane_reservation.hpp"
#include "tests/devices/cells.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// All collectives, of counts from one element to several blocks for each lane.
std::vector<perf::Cell> cells_of(int ranks) {
  const std::vector<std::uint64_t> counts =
      sanitized ? std::vector<std::uint64_t>{1, 37, 20'001}
                : std::vector<std::uint64_t>{1, 3, 37, 1000, 100'001};
  std::vector<perf::Cell> cells;
  int kind = 0;
  for (const Collective collective : on_devices)
    for (const std::uint64_t count : counts)
      for (const bool in_place : {false, true}) {
        const DataType type = ++kind % 3 == 0 ? DataType::f64
                              : kind % 3 == 1 ? DataType::i32
                                              : DataType::f16;
        perf::Cell cell{.collective = collective,
                        .type = type,
                        .op = ReduceOp::sum,
                        .shape = {.count = Elements{count}},
                        .in_place = in_place};
        if (kind % 5 == 0 && reduces(collective)) cell.op = ReduceOp::max;
        if (has_root(collective)) cell.shape.root = kind % ranks;
        cells.push_back(cell);
      }
  return cells;
}

class OnDevicesByRanks : public OnDevices, public ::testing::WithParamInterface<int> {};

TEST_P(OnDevicesByRanks, CollectivesAreOneLaunchAndCopyNothing) {
  const int ranks = GetParam();
  const auto cells = cells_of(ranks);
  on_ranks(ranks, [&](StreamCollectives& streams) {
    const DeviceArray<float> somewhere{{1}};
    Stream first{somewhere.span().data()}, second{somewhere.span().data()};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      Stream& stream = i % 2 == 0 ? first : second;
      const auto trouble = trouble_with(cells[i], streams.rank(), ranks, Where::device,
                                        Where::device, [&](const Request& request) {
                                          streams.on(stream.get()).run(request);
                                          EXPECT_EQ(stream.synchronize(), 0);
                                        });
      EXPECT_EQ(trouble, "");
    }
  });
  EXPECT_EQ(launches(), ranks * static_cast<int>(cells.size()));
  EXPECT_EQ(copies_to_host(), 0);
  EXPECT_EQ(events(), 0) << "events are released";
}
INSTANTIATE_TEST_SUITE_P(Ranks, OnDevicesByRanks, ::testing::Values(1, 2, 3, 4, 5));

TEST_F(OnDevices, AllTypesAndOperationsOfDevicesRun) {
  on_ranks(2, [](StreamCollectives& streams) {
    for (const DataType type : all_data_types())
      for (const ReduceOp op : all_reduce_ops()) {
        if (!supports(type, op)) continue;
        const perf::Cell cell{.type = type, .op = op, .shape = {.count = Elements{45}}};
        EXPECT_EQ(trouble_with(cell, streams.rank(), 2, Where::device, Where::device,
                               [&](const Request& request) { streams.on(nullptr).run(request); }),
                  "");
      }
  });
  EXPECT_GE(launches(), 2 * 80);
  EXPECT_EQ(copies_to_host(), 0);
}

TEST_F(OnDevices, ACallComesBehindWhatIsInItsStreamAndBeforeWhatIsPutThere) {
  on_ranks(3, [](StreamCollectives& streams) { expect_order_of_a_stream(streams, 3000); });
  EXPECT_EQ(copies_to_host(), 0);
}

/// Each rank takes its streams in an order of its own. The second call reads what the first writes.
TEST_F(OnDevices, CallsKeepTheirOrderAcrossStreams) {
  constexpr int rounds = 30;
  on_ranks(4, [](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{{1, 1, 1}};
    std::vector<Stream> all;
    for (int i = 0; i < 3; ++i) all.emplace_back(data.span().data());
    for (int i = 0; i < rounds; ++i) {
      const auto which = static_cast<std::size_t>((i * (streams.rank() + 1) + i / 3) % 3);
      streams.on(all[which].get()).all_reduce(data.span(), ReduceOp::max);
      streams.on(all[(which + 1) % 3].get()).broadcast(data.span(), i % 4);
    }
    for (Stream& stream : all) EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), Each(1));
  });
  EXPECT_EQ(launches(), 4 * 2 * rounds);
}

TEST_F(OnDevices, MessagesAndBarriersGoThroughPinnedMemoryBetweenCalls) {
  on_ranks(3, [](StreamCollectives& streams) {
    const int me = streams.rank();
    const DeviceArray<float> own{std::vector<float>(100, static_cast<float>(me))},
        got{std::vector<float>(100, -1)};
    Stream stream{own.span().data()};
    auto ordered = streams.on(stream.get());
    for (int round = 0; round < 5; ++round) {
      ordered.exchange(
          {Message::to((me + 1) % 3, own.span()), Message::from((me + 2) % 3, got.span())});
      ordered.all_reduce(got.span(), own.span());
      ordered.barrier();
      ordered.all_reduce(own.span(), ReduceOp::max);
    }
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(own.values(), Each(3 * 81));
    EXPECT_THAT(streams.explain(Request{}), StartsWith("pinned staging: no kernel"));
  });
  EXPECT_EQ(launches(), 3 * 10);
}

TEST_F(OnDevices, AHandleEndsWhenTheStreamHasGotThere) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());  // ranks agree, by copies of the device
    EXPECT_EQ(stream.synchronize(), 0);
    std::atomic<bool> returned = false;
    stream.launch([&] {
      for (int i = 0; i < 20'000 && !returned; ++i) std::this_thread::sleep_for(1ms);
    });
    Work work = streams.on(stream.get()).start_all_reduce(data.span());
    EXPECT_FALSE(work.has_ended());
    returned = true;
    work.wait();
    EXPECT_THAT(data.values(), ::testing::ElementsAre(4, 8, 12));
    Work without = streams.on(nullptr).start_all_reduce(data.span());
    without.wait();
    EXPECT_THAT(data.values(), ::testing::ElementsAre(8, 16, 24));
    EXPECT_EQ(stream.synchronize(), 0);
  });
}

TEST_F(OnDevices, RanksOnTwoDevicesReachEachOther) {
  on_ranks(4, [](StreamCollectives& streams) {
    const Where where = streams.rank() % 2 == 0 ? Where::device : Where::pool;
    EXPECT_THAT(way_of_a_call(streams, where), StartsWith("device executor, 8 lanes over PCIe"));
    const DeviceArray<float> other{{1}, where == Where::pool ? Where::device : Where::pool};
    EXPECT_THROW(streams.on(nullptr).all_reduce(other.span()), InvalidArgument);
    EXPECT_THAT(way_of_a_call(streams, where), StartsWith("device executor"));
  });
}

/// The same arguments in each replay: numbers advance on the device.
TEST_F(OnDevices, ACapturedCallMayBeReplayed) {
  on_ranks(1, [this](StreamCollectives& streams) {
    const DeviceArray<float> input{{1, 2}}, output{{-1, -1}}, host_way{{1}};
    Stream stream{input.span().data()};
    driver_knob("capturing", 1);
    streams.on(stream.get()).all_reduce(input.span(), output.span());
    EXPECT_THROW(static_cast<void>(streams.on(stream.get()).start_all_reduce(input.span())),
                 InvalidArgument)
        << "a graph has no handle";
    EXPECT_THROW(streams.on(stream.get()).send(input.span(), 0), InvalidArgument);
    driver_knob("capturing", -1);
    EXPECT_EQ(launches(), 1);
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(output.values(), Each(-1)) << "captured, not run";
    for (int i = 0; i < 3; ++i) stream.replay();
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(output.values(), ::testing::ElementsAre(1, 2));
  });
}

/// The launches of each rank are in a graph, and their kernels meet in each replay.
TEST_F(OnDevices, GraphsOfAllRanksRunAgainAndAgain) {
  std::atomic<int> here = 0;
  const auto meet = [&](int ranks) {
    for (++here; here < ranks;) std::this_thread::yield();
  };
  on_ranks(2, [&](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(5000, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());  // ranks agree
    EXPECT_EQ(stream.synchronize(), 0);
    meet(2);
    if (streams.rank() == 0) driver_knob("capturing", 1);
    meet(4);
    streams.on(stream.get()).all_reduce(data.span());
    meet(6);
    if (streams.rank() == 0) driver_knob("capturing", -1);
    meet(8);
    for (int i = 0; i < 4; ++i) stream.replay();
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), Each(32));
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), Each(64)) << "graphs and direct calls take turns";
  });
}

TEST_F(OnDevices, TheWayOfACallIsTold) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2}};
    EXPECT_THAT(way_of(streams, data), StartsWith("undecided: "));
    streams.on(nullptr).all_reduce(data.span());
    EXPECT_THAT(way_of(streams, data), StartsWith("device executor, 8 lanes: "));
    const DeviceArray<float> long_data{std::vector<float>(1 << 20)};
    EXPECT_THAT(way_of(streams, long_data), HasSubstr("staged"));
    const Reducer own = Reducer::of<float>("own", [](float a, float b) { return a + b; });
    EXPECT_THAT(streams.explain(request::in_place(Collective::all_reduce, data.span(), own)),
                "pinned staging: no kernel runs such calls of all_reduce");
  });
}

TEST_F(OnDevices, AnyRankCanKeepAllFromIt) {
  Settings off = bounded_settings();
  off.device_executor = false;
  on_ranks(
      3,
      [](StreamCollectives& streams) {
        EXPECT_THAT(way_of_a_call(streams), HasSubstr("CAPSTAN_DEVICE_EXECUTOR is 0"));
      },
      off);
  Settings spread = bounded_settings();
  spread.virtual_hosts = 2;
  spread.network = Network::tcp;
  on_ranks(
      2,
      [](StreamCollectives& streams) {
        EXPECT_THAT(way_of_a_call(streams), HasSubstr("CAPSTAN_VIRTUAL_HOSTS"));
      },
      spread);
  set_knob("multiprocessors", 0);
  on_ranks(3, [](StreamCollectives& streams) {
    EXPECT_THAT(way_of_a_call(streams), HasSubstr("too few for the kernels of 3 ranks"));
  });
  EXPECT_EQ(launches(), 0);
}

TEST_F(OnDevices, WithoutPeerAccessRanksOnTwoDevicesStage) {
  set_knob("peerless", 1);
  on_ranks(2, [](StreamCollectives& streams) {
    const Where where = streams.rank() == 0 ? Where::device : Where::pool;
    EXPECT_THAT(way_of_a_call(streams, where),
                HasSubstr("rank 0: device 0 does not reach the memory of device 1"));
  });
  set_knob("peerless", 0);
  EXPECT_EQ(launches(), 0);
}

TEST_F(OnDevices, RanksOnTwoDevicesAgreeOnTheLinkBetweenThem) {
  for (const bool linked : {false, true}) {
    set_knob("linked", linked ? 1 : 0);
    on_ranks(3, [&](StreamCollectives& streams) {
      const Where where = streams.rank() == 2 ? Where::pool : Where::device;
      EXPECT_THAT(way_of_a_call(streams, where),
                  HasSubstr(linked ? " lanes over NVLink or xGMI: "
                                   : " lanes over PCIe or an unknown link: "));
    });
  }
  set_knob("linked", 0);
}

TEST_F(OnDevices, ARankWithoutMemoryKeepsAllFromIt) {
  on_ranks(3, [](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2, 3}};
    streams.on(nullptr).barrier();
    if (streams.rank() == 0) set_knob("no_memory", 1);
    streams.on(nullptr).barrier();
    streams.on(nullptr).all_reduce(data.span());
    EXPECT_THAT(data.values(), ::testing::ElementsAre(3, 6, 9));
    EXPECT_THAT(way_of(streams, data), HasSubstr("pinned staging: rank "));
    EXPECT_THAT(way_of(streams, data), HasSubstr("allocating "));
  });
  EXPECT_EQ(launches(), 0);
  EXPECT_EQ(driver_knob("no_memory"), 0);
}

TEST_F(OnDevices, ARankWithoutKernelsKeepsAllFromIt) {
  set_knob("imageless", 1);
  std::atomic<int> staged = 0;
  on_ranks(2, [&](StreamCollectives& streams) {
    const auto way = way_of_a_call(streams);
    if (way.find("loading kernels") != std::string::npos) ++staged;
  });
  // Kernels stay loaded for the life of the process.
  EXPECT_EQ(staged, driver_knob("imageless") == 0 ? 2 : 0);
  set_knob("imageless", 0);
}

/// The group continues with kernels of other types. A kernel stays loaded for the life of the
/// process.
TEST_F(OnDevices, AKernelThatCannotBeLoadedOnOneRankKeepsAllFromIt) {
  // A kernel is looked for in each image: so many failures leave one rank without it at least.
  const DeviceArray<float> somewhere{{1}};
  const auto where = find_device_buffer(somewhere.span().data()).value();
  const auto images = static_cast<int>(where.driver->images().size());
  set_knob("kernelless", std::max(2 * images - 1, 1));
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<std::int64_t> data{{1, 2, 3, 4}};
    for (int i = 0; i < 3; ++i) streams.on(nullptr).all_reduce(data.span(), ReduceOp::bit_xor);
    EXPECT_THAT(data.values(), Each(0));
    const auto call = request::in_place(Collective::all_reduce, data.span(), ReduceOp::bit_xor);
    const bool failed = driver_knob("kernelless") == 0;
    EXPECT_THAT(streams.explain(call),
                StartsWith(failed ? "pinned staging: rank " : "device executor"));
  });
  set_knob("kernelless", 0);
  on_ranks(2, [](StreamCollectives& streams) {
    EXPECT_THAT(way_of_a_call(streams), StartsWith("device executor"));
  });
}

/// When another group has most of the device.
TEST_F(OnDevices, GroupsShareTheMultiprocessorsOfADevice) {
  const DeviceArray<float> somewhere{{1}};
  const auto where = find_device_buffer(somewhere.span().data()).value();
  EXPECT_EQ(LaneReservation::reserved(where), 0);
  on_ranks(2, [&](StreamCollectives& streams) {
    EXPECT_THAT(way_of_a_call(streams), StartsWith("device executor, 8 lanes"));
    streams.on(nullptr).barrier();
    EXPECT_EQ(LaneReservation::reserved(where), 16);
    streams.on(nullptr).barrier();
  });
  EXPECT_EQ(LaneReservation::reserved(where), 0);
  auto others = LaneReservation::of(where, 26, 32);
  ASSERT_TRUE(others);
  EXPECT_FALSE(LaneReservation::of(where, 7, 32));
  on_ranks(2, [&](StreamCollectives& streams) {
    EXPECT_THAT(way_of_a_call(streams), StartsWith("device executor, 3 lanes"));
  });
  auto more = LaneReservation::of(where, 5, 32);
  on_ranks(2, [&](StreamCollectives& streams) {
    EXPECT_THAT(way_of_a_call(streams), HasSubstr("32 multiprocessors, of which 1 are free"));
  });
}

}  // namespace
}  // namespace capstan
