// SPDX-License-Identifier: Apache-2.0

// Calls of ever new sizes on devices: they agree on nothing and allocate nothing.

#include <array>
#include <atomic>
#include <thread>

#include "core/platform/device/program_memory.hpp"
#include "tests/devices/device_path.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::StartsWith;

/// Rank 0 starts a call of a new size, and then sends what rank 1 waits for before its own call.
TEST_F(OnDevices, ACallOfANewSizeWaitsForNoOtherRank) {
  Settings settings = bounded_settings();
  settings.timeout = 10s;
  on_threads(2, settings, [](Communicator& world) {
    StreamCollectives streams{world};
    const DeviceArray<float> data{std::vector<float>(100'000, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    float expected = 2;
    for (const std::size_t count : {1U, 7U, 300U, 1001U, 99'999U}) {
      std::array<int, 1> token{};
      if (world.rank() == 1) world.receive(std::span{token}, 0);
      streams.on(stream.get()).all_reduce(data.span().first(count));
      if (world.rank() == 0) world.send(std::span{token}, 1);
      EXPECT_EQ(stream.synchronize(), 0);
      expected *= 2;
      EXPECT_EQ(data.values().front(), expected);
    }
  });
}

/// An allocation may wait for kernels, and these for other ranks.
TEST_F(OnDevices, CallsOfNewSizesAllocateNothing) {
  on_ranks(3, [this](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(40'000, 0)};
    way_of_a_call(streams);
    streams.on(nullptr).barrier();
    if (streams.rank() == 0) set_knob("no_memory", 1'000'000);
    streams.on(nullptr).barrier();
    const int before = launches();
    for (std::size_t count = 1; count < 40'000; count = count * 3 + 1) {
      const auto part = data.span().first(count);
      for (const Collective each : {Collective::all_reduce, Collective::broadcast,
                                    Collective::reduce, Collective::scan, Collective::exscan})
        streams.on(nullptr).run(
            request::in_place(each, part, {}, has_root(each) ? static_cast<int>(count % 3) : 0));
    }
    EXPECT_GE(launches() - before, 40);
    EXPECT_THAT(way_of(streams, data), StartsWith("device executor"));
    streams.on(nullptr).barrier();
  });
  set_knob("no_memory", 0);
}

/// Room for few programs: those that were used last stay, and those in graphs and streams.
class OnDevicesInLittleMemory : public OnDevices {
 protected:
  void SetUp() override {
    OnDevices::SetUp();
    ProgramMemory::first_programs = Bytes{4 << 10};
  }
  void TearDown() override {
    ProgramMemory::first_programs = usual_;
    OnDevices::TearDown();
  }

 private:
  const Bytes usual_ = ProgramMemory::first_programs;
};

TEST_F(OnDevicesInLittleMemory, CallsOfAnyNumberOfKindsRunByKernels) {
  const int before = driver_knob("pinned");
  constexpr int kinds = 60, rounds = 2, first = 5;
  on_ranks(3, [](StreamCollectives& streams) {
    std::vector<std::int32_t> expected(kinds + first, 1);
    const DeviceArray<std::int32_t> data{expected};
    for (int round = 0; round < rounds; ++round)
      for (int i = 0; i < kinds; ++i) {
        const int count = first + (i * 37 + streams.size()) % kinds;
        streams.on(nullptr).all_reduce(data.span().first(static_cast<std::size_t>(count)),
                                       ReduceOp::max);
        streams.on(nullptr).broadcast(data.span().first(static_cast<std::size_t>(count)), i % 3);
      }
    EXPECT_THAT(data.values(), Each(1));
  });
  EXPECT_EQ(launches(), 3 * 2 * kinds * rounds);
  EXPECT_LE(driver_knob("pinned") - before, 3 * 8) << "nothing was allocated on the way";
}

/// Ahead of a device that has not begun, each rank's programs stay where they are.
TEST_F(OnDevicesInLittleMemory, ProgramsStayUntilTheirCallsHaveEnded) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{std::vector<std::int32_t>(100, 1)};
    streams.on(nullptr).all_reduce(data.span(), ReduceOp::max);
    Stream stream{data.span().data()};
    std::atomic<bool> all_put = false;
    stream.launch([&] {
      for (int i = 0; i < 20'000 && !all_put; ++i) std::this_thread::sleep_for(1ms);
    });
    for (std::size_t count = 1; count <= 40; ++count)
      streams.on(stream.get()).all_reduce(data.span().first(count), ReduceOp::max);
    all_put = true;
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), Each(1));
  });
}

TEST_F(OnDevicesInLittleMemory, ProgramsOfGraphsStay) {
  on_ranks(1, [](StreamCollectives& streams) {
    const DeviceArray<float> input{{1, 2}}, output{{-1, -1}};
    Stream stream{input.span().data()};
    driver_knob("capturing", 1);
    streams.on(stream.get()).all_reduce(input.span(), output.span());
    driver_knob("capturing", -1);
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    for (std::size_t count = 3; count <= 100; ++count)
      streams.on(stream.get()).all_reduce(data.span().first(count));
    stream.replay();
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(output.values(), ::testing::ElementsAre(1, 2));
  });
}

}  // namespace
}  // namespace capstan
