// SPDX-License-Identifier: Apache-2.0

// Exact sums: the same bits however the numbers are spread over ranks, and those of the exact sum
// rounded once.

#include "capstan/accumulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// Rows of numbers, each of which one rank adds.
template <class T>
using Rows = std::vector<std::vector<T>>;

/// Numbers of any exponent within 2^-span to 2^span, both signs, zeros, and pairs that cancel.
template <class T>
T number(std::mt19937_64& random, int span) {
  if (random() % 16 == 0) return T(0);
  const int exponent = static_cast<int>(random() % static_cast<std::uint64_t>(2 * span)) - span;
  const double fraction = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
  return static_cast<T>(std::ldexp(random() % 2 == 0 ? fraction : -fraction, exponent));
}

template <class T>
Rows<T> rows_of(int many, std::size_t count, int span) {
  std::mt19937_64 random{7};
  Rows<T> rows(static_cast<std::size_t>(many), std::vector<T>(count));
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < count; ++i)
      rows[r][i] = r % 3 == 2 ? -rows[r - 1][i] : number<T>(random, span);
  return rows;
}

template <class T>
std::vector<T> sums_of(Accumulator& sums) {
  std::vector<T> result(sums.count().value());
  sums.result(result);
  return result;
}

/// The rows dealt out to ranks in turn, in another order each time; the bits of rank 0's result.
template <class T>
std::vector<T> on_ranks(const Rows<T>& rows, int ranks, int hosts) {
  std::vector<T> result;
  Settings settings = bounded_settings();
  settings.virtual_hosts = hosts;
  on_threads(ranks, settings, [&](Communicator& world) {
    Accumulator sums{data_type_of<T>.value(), Elements{rows.front().size()}};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t row = ranks % 2 == 0 ? r : rows.size() - 1 - r;
      if (static_cast<int>(row) % ranks == world.rank()) sums.add(rows[row]);
    }
    sums.all_reduce(world);
    const auto own = sums_of<T>(sums);
    if (world.rank() == 0) result = own;
    std::vector<T> first = own;
    world.broadcast(first, 0);
    EXPECT_EQ(std::memcmp(first.data(), own.data(), own.size() * sizeof(T)), 0) << world.rank();
  });
  return result;
}

template <class T>
class ExactSums : public ::testing::Test {};
using Floating = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ExactSums, Floating);

TYPED_TEST(ExactSums, HaveTheSameBitsOnAnyNumberOfRanks) {
  const int span = std::is_same_v<TypeParam, float> ? 60 : 500;
  const auto rows = rows_of<TypeParam>(24, sanitized ? 40 : 400, span);
  const auto alone = on_ranks(rows, 1, 0);
  for (const auto& [ranks, hosts] : {std::pair{2, 0}, {3, 0}, {4, 2}, {8, 4}}) {
    const auto spread = on_ranks(rows, ranks, hosts);
    ASSERT_EQ(spread.size(), alone.size());
    EXPECT_EQ(std::memcmp(spread.data(), alone.data(), alone.size() * sizeof(TypeParam)), 0)
        << ranks << " ranks on " << hosts << " hosts";
  }
}

/// Numbers whose sum a wider type holds exactly: rounding that once is the definition.
TEST(Accumulators, RoundTheExactSumOnce) {
  std::mt19937_64 random{3};
  constexpr std::size_t count = 2'000;
  Accumulator sums{DataType::f32, Elements{count}};
  std::vector<double> exact(count);
  for (int row = 0; row < 30; ++row) {
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i)
      exact[i] += numbers[i] =
          std::ldexp(static_cast<float>(static_cast<int>(random() % 65'536) - 32'768),
                     static_cast<int>(random() % 24));
    sums.add(numbers);
  }
  const auto result = sums_of<float>(sums);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(result[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(exact[i]) + 0.0F))
        << i;
}

template <class T>
T sum(std::initializer_list<T> numbers) {
  Accumulator sums{data_type_of<T>.value(), Elements{1}};
  for (const T x : numbers) sums.add(std::vector{x});
  return sums_of<T>(sums).front();
}

TEST(Accumulators, KeepWhatPlainSumsLose) {
  EXPECT_EQ(sum<double>({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum<float>({1, 0x1p-24F, 0x1p-149F}), 1 + 0x1p-23F) << "above the middle";
  EXPECT_EQ(sum<float>({1, 0x1p-24F}), 1) << "the middle: to even";
  EXPECT_EQ(sum<double>({0x1p-1074, 0x1p-1074}), 0x1p-1073);
  EXPECT_EQ(sum<float>({0x1p-149F, -0x1p-149F}), 0);
  EXPECT_FALSE(std::signbit(sum<float>({-0.0F, -0.0F})));
  EXPECT_EQ(sum<double>({-3, 1}), -2);
}

TEST(Accumulators, KnowInfinitiesAndNaNs) {
  constexpr float most = std::numeric_limits<float>::max(),
                  inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sum<float>({most, most}), inf);
  EXPECT_EQ(sum<float>({most, most, -most}), most) << "nothing overflows on the way";
  EXPECT_EQ(sum<float>({inf, 1}), inf);
  EXPECT_EQ(sum<float>({-inf, most}), -inf);
  EXPECT_TRUE(std::isnan(sum<float>({inf, -inf})));
  EXPECT_TRUE(std::isnan(sum<float>({1, std::nanf("")})));
  EXPECT_EQ(sum<double>({1e308, 1e308}), std::numeric_limits<double>::infinity());
}

TEST(Accumulators, HoldEveryNumberOfSmallTypesExactly) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    std::vector<std::uint16_t> all(65'536), result(65'536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    Accumulator sums{type, Elements{all.size()}};
    sums.add(type, all.data(), Elements{all.size()});
    sums.result(type, result.data(), Elements{all.size()});
    const unsigned infinity = type == DataType::f16 ? 0x7c00 : 0x7f80;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((i & 0x7fff) > infinity) continue;  // NaNs
      ASSERT_EQ(result[i], i == 0x8000 ? 0 : i) << name_of(type);
    }
  }
}

TEST(Accumulators, HoldComplexNumbersPartByPart) {
  const std::complex<float> a{1e20F, -1}, b{1, -1e-20F}, c{-1e20F, 1};
  Accumulator sums{DataType::c64, Elements{1}};
  for (const auto& x : {a, b, c}) sums.add(std::vector{x});
  EXPECT_EQ(sums_of<std::complex<float>>(sums).front(), b);
}

TEST(Accumulators, StartAgainAfterAReset) {
  Accumulator sums{DataType::f64, Elements{2}};
  sums.add(std::vector{1e200, std::numeric_limits<double>::infinity()});
  sums.reset();
  EXPECT_EQ(sums_of<double>(sums), (std::vector{0.0, 0.0}));
  sums.add(std::vector{1.5, -2.0});
  EXPECT_EQ(sums_of<double>(sums), (std::vector{1.5, -2.0}));
}

TEST(Accumulators, RefuseWhatTheyCannotHold) {
  const auto text_of = [](auto call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(text_of([] { Accumulator{DataType::i32, Elements{1}}; }),
              HasSubstr("sums of integers are exact anyway"));
  Accumulator sums{DataType::f32, Elements{3}};
  EXPECT_THAT(text_of([&] { sums.add(std::vector<float>(4)); }),
              HasSubstr("an array of 4 x f32: this one is for 3 x f32"));
  EXPECT_THAT(text_of([&] { sums.add(std::vector<double>(3)); }), HasSubstr("3 x f64"));
}

}  // namespace
}  // namespace capstan
