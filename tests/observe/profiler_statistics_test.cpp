// SPDX-License-Identifier: Apache-2.0

// Statistics of the profiler: bandwidths, sums and percentiles of its records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "capstan/observe/profiler.hpp"
#include "tests/observe/measurements.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::SizeIs;

TEST(Requirement, O40_BandwidthIsInMiBPerSecondAndZeroForNoDuration) {
  EXPECT_DOUBLE_EQ(bandwidth_of(mebibyte, 1s), 1);
  EXPECT_DOUBLE_EQ(bandwidth_of(Bytes{3 << 19}, 1ms), 1500);
  EXPECT_EQ(bandwidth_of(mebibyte, 0s), 0);
  Profiler profiler;
  profiler.record(all_reduce_of(mebibyte, 0s));
  EXPECT_EQ(profiler.profiles().front().bandwidth, 0);
  EXPECT_EQ(profiler.statistics().least_bandwidth, 0);
}

TEST(Requirement, O42_StatisticsHaveCountBytesTimeAndBandwidths) {
  Profiler profiler;
  profiler.record(all_reduce_of(mebibyte, 1ms));      // 1000 MiB/s
  profiler.record(all_reduce_of(mebibyte * 4, 2ms));  // 2000 MiB/s
  profiler.record(all_reduce_of(mebibyte, 5ms));      // 200 MiB/s
  const ProfileStatistics statistics = profiler.statistics();
  EXPECT_EQ(statistics.operations, 3U);
  EXPECT_EQ(statistics.bytes, mebibyte * 6);
  EXPECT_DOUBLE_EQ(statistics.time.count(), 8);
  EXPECT_DOUBLE_EQ(statistics.average_bandwidth, 3200.0 / 3);
  EXPECT_DOUBLE_EQ(statistics.least_bandwidth, 200);
  EXPECT_DOUBLE_EQ(statistics.greatest_bandwidth, 2000);
}

TEST(Requirement, O42_StatisticsHavePercentilesAndOnesForEachOperationAndAlgorithm) {
  Profiler profiler;
  for (int i = 100; i > 0; --i) {
    profiler.record(all_reduce_of(mebibyte, std::chrono::milliseconds{i}));
    profiler.record({.operation = "broadcast", .began = moment, .ended = moment + 1s});
  }
  const auto groups = profiler.groups();
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].operation, "AllReduce");
  EXPECT_EQ(groups[0].algorithm, "Ring");
  EXPECT_EQ(groups[0].statistics.operations, 100U);
  EXPECT_DOUBLE_EQ(groups[0].statistics.duration.p50, 50);
  EXPECT_DOUBLE_EQ(groups[0].statistics.duration.p90, 90);
  EXPECT_DOUBLE_EQ(groups[0].statistics.duration.p99, 99);
  EXPECT_EQ(groups[1].operation, "broadcast");
  EXPECT_DOUBLE_EQ(groups[1].statistics.duration.p50, 1000);
  EXPECT_EQ(profiler.statistics().operations, 200U);
}

TEST(Requirement, O43_StatisticsOfNothingAreZeros) {
  const ProfileStatistics statistics = Profiler{}.statistics();
  EXPECT_EQ(statistics.operations, 0U);
  EXPECT_EQ(statistics.bytes, Bytes{0});
  EXPECT_EQ(statistics.time.count(), 0);
  EXPECT_EQ(statistics.average_bandwidth, 0);
  EXPECT_EQ(statistics.least_bandwidth, 0);
  EXPECT_EQ(statistics.greatest_bandwidth, 0);
  EXPECT_EQ(statistics.duration.p99, 0);
}

TEST(Requirement, O44_TheTextOfStatistics) {
  Profiler profiler;
  EXPECT_EQ(profiler.statistics().to_string(),
            "Total Operations: 0, Total Data: 0.00 GB, Total Time: 0.00 s, Avg Bandwidth: 0.00 "
            "MB/s");
  profiler.record(all_reduce_of(mebibyte * 1536, 2s));
  profiler.record(all_reduce_of(mebibyte * 512, 1s));
  EXPECT_EQ(profiler.statistics().to_string(),
            "Total Operations: 2, Total Data: 2.00 GB, Total Time: 3.00 s, Avg Bandwidth: 640.00 "
            "MB/s");
}

TEST(Requirement, O64_MeasuredTimesEncloseTheFunctionAndNothingElse) {
  Profiler profiler;
  std::chrono::nanoseconds inside{0};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i)
    profiler.profile("nap", mebibyte, [&] {
      const auto began = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(1ms);
      inside += std::chrono::steady_clock::now() - began;
    });
  const std::chrono::nanoseconds outside = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double, std::nano> measured = profiler.statistics().time;
  EXPECT_GE(measured.count(), static_cast<double>(inside.count()));
  EXPECT_LE(measured.count(), static_cast<double>(outside.count()));
  std::chrono::nanoseconds sum{0};
  for (const OperationProfile& profile : profiler.profiles()) sum += profile.duration;
  EXPECT_NEAR(measured.count(), static_cast<double>(sum.count()), 1);
}

}  // namespace
}  // namespace capstan
