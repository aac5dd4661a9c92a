// SPDX-License-Identifier: Apache-2.0

// Results are the same, bit by bit, on all ranks, in every call and in every communicator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <mutex>
#include <random>
#include <set>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;

/// Numbers of very different magnitudes: their sum depends on the order in which they are added.
std::vector<float> numbers_of(int rank, std::size_t count) {
  std::mt19937 random{static_cast<unsigned>(rank)};
  std::vector<float> numbers(count);
  for (float& number : numbers)
    number = std::ldexp(static_cast<float>(random()) - 0x1p31f, static_cast<int>(random() % 40));
  return numbers;
}

using Bits = std::vector<std::uint32_t>;

Bits bits_of(const std::vector<float>& numbers) {
  Bits bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

bool order_matters(int ranks, std::size_t count) {
  std::vector<float> up(count), down(count);
  for (int i = 0; i < ranks; ++i) {
    const auto a = numbers_of(i, count), b = numbers_of(ranks - 1 - i, count);
    for (std::size_t e = 0; e < count; ++e) up[e] += a[e], down[e] += b[e];
  }
  return bits_of(up) != bits_of(down);
}

/// Calls are repeated while the autotuner tries candidates, and after it has decided.
TEST(Results, OfASumAreTheSameOnAllRanksInAllCallsAndCommunicators) {
  constexpr int ranks = 3;
  for (const auto& [count, calls] :
       {std::pair{std::size_t{100}, 300}, {std::size_t{40'000}, 100}}) {
    ASSERT_TRUE(order_matters(ranks, count));
    std::mutex mutex;
    std::set<Bits> all;
    for (int communicator = 0; communicator < 2; ++communicator)
      on_threads(ranks, bounded_settings(), [&](Communicator& world) {
        const auto input = numbers_of(world.rank(), count);
        std::vector<float> output(count);
        std::set<Bits> own;
        for (int call = 0; call < calls; ++call) {
          world.all_reduce(input, output);
          own.insert(bits_of(output));
        }
        const std::lock_guard lock{mutex};
        all.merge(own);
      });
    EXPECT_EQ(all.size(), 1) << count << " elements";
  }
}

template <class T>
void expect_average(std::size_t count, T value, T average) {
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    std::vector<T> data(count, value);
    world.all_reduce(data, ReduceOp::average);
    EXPECT_THAT(data, Each(average));
  });
}

/// The sum wraps around, and is then divided and truncated.
TEST(Results, AveragesOfIntegersAreThoseOfASumThatWraps) {
  for (const std::size_t count : {1, 100, 100'000}) {
    expect_average<std::int8_t>(count, 100, (300 - 256) / 3);
    expect_average<std::int8_t>(count, -3, -3);
    expect_average<std::uint8_t>(count, 200, (600 - 512) / 3);
    const std::int64_t sum = 3 * std::int64_t{2'000'000'000} - (std::int64_t{1} << 32);
    expect_average<std::int32_t>(count, 2'000'000'000, static_cast<std::int32_t>(sum / 3));
  }
}

}  // namespace
}  // namespace capstan
