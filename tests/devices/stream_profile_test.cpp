// SPDX-License-Identifier: Apache-2.0

// Records of profilers about calls in streams.

#include <thread>

#include "capstan/error.hpp"
#include "capstan/observe/profiler.hpp"
#include "tests/devices/device_path.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::StartsWith;

class RecordedInStreams : public OnDevices {
 protected:
  static auto call(const char* operation, std::uint64_t bytes, const char* way) {
    return AllOf(Field("operation", &OperationProfile::operation, operation),
                 Field("bytes", &OperationProfile::bytes, Bytes{bytes}),
                 Field("way", &OperationProfile::algorithm, StartsWith(way)),
                 Field("failed", &OperationProfile::failed, false));
  }
  static Settings without_kernels() {
    Settings settings = bounded_settings();
    settings.device_executor = false;
    return settings;
  }
};

/// The stand-in's kernel of rank 0 begins 20 ms later than those of the others, which wait for it.
TEST_F(RecordedInStreams, CallsByKernelsHaveTheirTimesOnTheDevice) {
  on_ranks(3, [](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    auto ordered = streams.on(stream.get());
    ordered.all_reduce(data.span(), ReduceOp::max);
    ordered.broadcast(data.span(), 1);
    EXPECT_EQ(stream.synchronize(), 0);

    Profiler profiler;
    streams.attach(profiler, "gradients");
    const auto before = std::chrono::system_clock::now();
    if (streams.rank() == 0) stream.launch([] { std::this_thread::sleep_for(20ms); });
    ordered.all_reduce(data.span(), ReduceOp::max);
    ordered.broadcast(data.span(), 1);
    streams.on(nullptr).all_reduce(data.span(), ReduceOp::max);
    const auto after = std::chrono::system_clock::now();
    streams.detach_profiler();
    ordered.broadcast(data.span(), 1);
    EXPECT_EQ(stream.synchronize(), 0);
    while (!streams.is_idle()) std::this_thread::sleep_for(1ms);

    const auto calls = profiler.profiles();
    ASSERT_THAT(calls, ElementsAre(call("all_reduce", 12, "device executor: "),
                                   call("broadcast", 12, "device executor: "),
                                   call("all_reduce", 12, "device executor: ")));
    for (const OperationProfile& each : calls) {
      EXPECT_EQ(each.rank, streams.rank());
      EXPECT_EQ(each.ranks, 3);
      EXPECT_EQ(each.tag, "gradients");
      EXPECT_GT(each.duration, 0ns);
      // The two clocks are read one after the other, and the machine may be busy.
      EXPECT_GE(each.began, before - 1s);
      EXPECT_LE(each.timestamp, after + 1s);
    }
    if (streams.rank() == 0) {
      EXPECT_GE(calls[0].began, before + 19ms) << "its stream came to it then";
    }
  });
}

TEST_F(RecordedInStreams, CallsThroughPinnedMemoryNameTheirAlgorithm) {
  on_ranks(
      3,
      [](StreamCollectives& streams) {
        const int me = streams.rank();
        const DeviceArray<float> own{{1, 2, 3}}, got{{0, 0, 0}};
        Stream stream{own.span().data()};
        Profiler profiler;
        streams.attach(profiler);
        auto ordered = streams.on(stream.get());
        ordered.all_reduce(own.span());
        ordered.exchange(
            {Message::to((me + 1) % 3, own.span()), Message::from((me + 2) % 3, got.span())});
        ordered.barrier();
        EXPECT_EQ(stream.synchronize(), 0);
        EXPECT_THAT(profiler.profiles(),
                    ElementsAre(call("all_reduce", 12, "pinned staging: "),
                                call("exchange", 24, "pinned staging"), call("barrier", 0, "")));
        EXPECT_FALSE(profiler.profiles()[2].algorithm.empty());
        EXPECT_EQ(profiler.statistics().failures, 0U);
      },
      without_kernels());
}

/// Rank 1 does not call.
TEST_F(RecordedInStreams, CallsThatFailAreRecordedAsSuch) {
  for (const bool kernels : {true, false})
    on_ranks(
        2,
        [](StreamCollectives& streams) {
          const DeviceArray<float> data{{1, 2, 3}};
          Stream stream{data.span().data()};
          streams.on(stream.get()).all_reduce(data.span());
          EXPECT_EQ(stream.synchronize(), 0);
          if (streams.rank() == 1) {
            std::this_thread::sleep_for(10ms);
            return streams.abort("a test");
          }
          Profiler profiler;
          streams.attach(profiler);
          EXPECT_THROW(streams.on(stream.get()).start_all_reduce(data.span()).wait(), Error);
          const auto calls = profiler.profiles();
          ASSERT_LE(calls.size(), 1U) << "none where the other rank was faster";
          for (const OperationProfile& each : calls) EXPECT_TRUE(each.failed);
        },
        kernels ? bounded_settings() : without_kernels());
}

}  // namespace
}  // namespace capstan
