// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "tests/unit/kernels_reference.hpp"

namespace capstan::kernels {
namespace {

/// Runs a kernel over whole vectors and compares with the reference, element by element.
template <class T>
void expect_reference(std::string_view target, ReduceOp op,
                      const std::vector<std::vector<T>>& sources, std::uint32_t divisor = 1) {
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<T> result(sources[0].size()), column(sources.size());
  Reduction call{};
  call.destination = result.data();
  call.sources = pointers.data();
  call.source_count = sources.size();
  call.element_count = result.size();
  call.divisor = divisor;
  reduce_kernel_for(target, *data_type_of<T>, op)(call);
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) column[s] = sources[s][i];
    const T expected = reference::reduce<T>(op, column, divisor);
    ASSERT_EQ(std::memcmp(&result[i], &expected, sizeof(T)), 0)
        << target << ' ' << name_of(op) << " by " << divisor << ", element " << i;
  }
}

class KernelsNumerics : public testing::TestWithParam<std::string_view> {
 protected:
  std::string_view target() const { return GetParam(); }
};

/// Every 16-bit pattern once, starting at `first` and in steps of an odd number.
template <class T>
std::vector<T> every_pattern(std::uint32_t first = 0, std::uint32_t step = 1) {
  std::vector<T> result;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    result.push_back({static_cast<std::uint16_t>(first + i * step)});
  }
  return result;
}

template <class T>
std::vector<T> constant(float value) {
  return std::vector<T>(65536, reference::narrow<T>(value));
}

/// Adding -0 or multiplying by 1 preserves every value; the other factors and divisors cause every
/// kind of rounding: ties, overflow, into and among the subnormals.
template <class T>
void check_every_pattern(std::string_view target) {
  const auto all = every_pattern<T>();
  expect_reference<T>(target, ReduceOp::sum, {all});
  expect_reference<T>(target, ReduceOp::sum, {all, constant<T>(-0.0f)});
  for (const float factor : {1.0f, 1.5f, 0.75f, 0.0625f, 1.0f / 1024, -1023.0f / 1024, 3.0f}) {
    expect_reference<T>(target, ReduceOp::product, {all, constant<T>(factor)});
  }
  for (const std::uint32_t divisor : {2u, 3u, 6u, 1024u, 4000000000u}) {
    expect_reference<T>(target, ReduceOp::average, {all}, divisor);
  }
  for (const ReduceOp op : all_reduce_ops()) {
    if (supports(*data_type_of<T>, op))
      expect_reference<T>(target, op, {all, every_pattern<T>(17, 40503), every_pattern<T>(5, 2731)},
                          3);
  }
}

TEST_P(KernelsNumerics, EveryF16PatternConvertsAndRounds) {
  check_every_pattern<Float16>(target());
}

TEST_P(KernelsNumerics, EveryBf16PatternConvertsAndRounds) {
  check_every_pattern<BFloat16>(target());
}

/// Combines each value with each other, in enough copies for the vector path and the partial one.
template <class T>
void check_special_values(std::string_view target) {
  using Limits = std::numeric_limits<T>;
  const std::array values{T{0},
                          -T{0},
                          Limits::infinity(),
                          -Limits::infinity(),
                          Limits::max(),
                          T{1},
                          -Limits::denorm_min(),
                          Limits::quiet_NaN(),
                          -Limits::quiet_NaN(),
                          Limits::signaling_NaN(),
                          Limits::lowest()};
  std::vector<std::vector<T>> sources(3);
  for (const T a : values) {
    for (const T b : values) {
      for (const T c : values) {
        sources[0].push_back(a), sources[1].push_back(b), sources[2].push_back(c);
      }
    }
  }
  for (const ReduceOp op : all_reduce_ops())
    if (supports(*data_type_of<T>, op)) expect_reference<T>(target, op, sources, 3);
}

TEST_P(KernelsNumerics, NanInfinityAndSignedZeroFollowTheRules) {
  check_special_values<float>(target());
  check_special_values<double>(target());
}

TEST_P(KernelsNumerics, MinAndMaxDoNotDependOnTheOrderOfSources) {
  const std::vector<float> plus(40, 0.0f), minus(40, -0.0f);
  expect_reference<float>(target(), ReduceOp::min, {plus, minus});
  expect_reference<float>(target(), ReduceOp::min, {minus, plus});
  expect_reference<float>(target(), ReduceOp::max, {plus, minus});
  expect_reference<float>(target(), ReduceOp::max, {minus, plus});
}

template <class T>
std::vector<T> integers_with_edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> result{Limits::min(), Limits::max(), T{0}, T{1}, static_cast<T>(-1)};
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    result.push_back(static_cast<T>(static_cast<T>(random()) >> (random() % (8 * sizeof(T)))));
    result.push_back(static_cast<T>(Limits::max() - static_cast<T>(i % 100)));
  }
  return result;
}

template <class T>
void check_division(std::string_view target) {
  const auto values = integers_with_edges<T>();
  std::vector<std::uint32_t> divisors(300);
  std::iota(divisors.begin(), divisors.end(), 1u);
  for (int bit = 9; bit < 32; ++bit) {
    for (const std::uint32_t near : {-1u, 0u, 1u}) divisors.push_back((1u << bit) + near);
  }
  divisors.push_back(0xFFFFFFFFu);
  for (const std::uint32_t divisor : divisors) {
    expect_reference<T>(target, ReduceOp::average, {values}, divisor);
  }
}

TEST_P(KernelsNumerics, IntegerAveragesTruncateForAllKindsOfDivisors) {
  check_division<std::int8_t>(target());
  check_division<std::uint8_t>(target());
  check_division<std::int32_t>(target());
  check_division<std::uint32_t>(target());
  check_division<std::int64_t>(target());
  check_division<std::uint64_t>(target());
}

/// 1 + 2^-8 three times over is 1.0117..; rounding after each step would lose every addend.
TEST_P(KernelsNumerics, SixteenBitSumsAreRoundedOnce) {
  const std::vector<BFloat16> one{{0x3F80}}, tiny{{0x3B80}};  // 1 and 2^-8
  std::vector<const void*> pointers{one.data(), tiny.data(), tiny.data(), tiny.data()};
  BFloat16 result{};
  reduce_kernel_for(target(), DataType::bf16,
                    ReduceOp::sum)({&result, nullptr, pointers.data(), pointers.size(), 1});
  EXPECT_EQ(result.bits, 0x3F82);
}

std::string target_name(const testing::TestParamInfo<std::string_view>& parameter) {
  return test_name_of(parameter.param);
}

const auto targets = testing::ValuesIn(available_targets().begin(), available_targets().end());
INSTANTIATE_TEST_SUITE_P(All, KernelsNumerics, targets, target_name);

}  // namespace
}  // namespace capstan::kernels
