// SPDX-License-Identifier: Apache-2.0

// 8-bit floats, complex numbers, operations of the program's own, and scaling.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>

#include "capstan/error.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cpu/small_float.hpp"
#include "tests/unit/kernels_reference.hpp"

namespace capstan::kernels {
namespace {

TEST(SmallFloats, CodesAreWhatTheStandardSays) {
  EXPECT_EQ(to_float(Float8E4M3{0x7E}), 448.0f);
  EXPECT_EQ(to_float(Float8E4M3{0x01}), std::ldexp(1.0f, -9));
  EXPECT_TRUE(std::isnan(to_float(Float8E4M3{0x7F})));
  EXPECT_TRUE(std::isnan(to_float(Float8E4M3{0xFF})));
  EXPECT_EQ(to_float(Float8E5M2{0x7B}), 57344.0f);
  EXPECT_EQ(to_float(Float8E5M2{0x01}), std::ldexp(1.0f, -16));
  EXPECT_TRUE(std::isinf(to_float(Float8E5M2{0xFC})));
  EXPECT_TRUE(std::isnan(to_float(Float8E5M2{0x7D})));
}

/// Every code survives a round trip; values between two codes round to nearest, ties to even.
template <class T>
void check_rounding() {
  const std::uint32_t beyond = small_float_of<T>.beyond();
  for (std::uint32_t code = 0; code + 1 < beyond; ++code) {
    const auto next = code + 1;
    const float low = to_float(T{static_cast<decltype(T::bits)>(code)}),
                high = to_float(T{static_cast<decltype(T::bits)>(next)});
    const float middle = low + (high - low) / 2;
    const std::uint32_t even = code % 2 == 0 ? code : next;
    EXPECT_EQ(small_float_of<T>.encode(low), code);
    EXPECT_EQ(small_float_of<T>.encode(middle), even) << code;
    EXPECT_EQ(small_float_of<T>.encode(std::nextafter(middle, low)), code);
    EXPECT_EQ(small_float_of<T>.encode(std::nextafter(middle, high)), next);
    EXPECT_EQ(small_float_of<T>.encode(-high), next | small_float_of<T>.sign_bit());
  }
}

TEST(SmallFloats, RoundToNearestEven) {
  check_rounding<Float8E4M3>();
  check_rounding<Float8E5M2>();
  check_rounding<Float16>();
  check_rounding<BFloat16>();
}

TEST(SmallFloats, WhatIsTooLargeIsInfiniteOrNan) {
  EXPECT_EQ(from_float<Float8E4M3>(464.0f).bits, 0x7E) << "a tie, to the even code";
  EXPECT_EQ(from_float<Float8E4M3>(465.0f).bits, 0x7F);
  EXPECT_EQ(from_float<Float8E4M3>(-INFINITY).bits, 0xFF);
  EXPECT_EQ(from_float<Float8E5M2>(61439.0f).bits, 0x7B);
  EXPECT_EQ(from_float<Float8E5M2>(61440.0f).bits, 0x7C);
  EXPECT_EQ(from_float<Float8E5M2>(NAN).bits, 0x7E);
  EXPECT_EQ(from_float<Float8E5M2>(-0.0f).bits, 0x80);
}

template <class T>
void run(ReduceKernel kernel, const std::vector<std::vector<T>>& sources, std::vector<T>& to,
         std::vector<T>* second, std::uint32_t divisor, const void* context = nullptr) {
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<T> third(to.size());
  void* const further[] = {third.data()};
  kernel({.destination = to.data(),
          .second_destination = second ? second->data() : nullptr,
          .sources = pointers.data(),
          .source_count = pointers.size(),
          .element_count = to.size(),
          .divisor = divisor,
          .fetch_ahead = true,
          .following = 5000,
          .context = context,
          .further = further,
          .further_count = 1});
  EXPECT_EQ(std::memcmp(third.data(), to.data(), to.size() * sizeof(T)), 0);
}

template <class T>
void check_float8() {
  for (const ReduceOp op : all_reduce_ops()) {
    if (!supports(*data_type_of<T>, op)) continue;
    const std::uint32_t divisor = op == ReduceOp::average ? 3 : 1;
    std::vector<std::vector<T>> sources(3, std::vector<T>(1537));
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t i = 0; i < sources[s].size(); ++i)
        sources[s][i] = {static_cast<std::uint8_t>(i * (2 * s + 1) + i / 256 * 77 + s)};
    std::vector<T> result(1537), second(1537);
    run(reduce_kernel(*data_type_of<T>, op), sources, result, &second, divisor);
    for (std::size_t i = 0; i < result.size(); ++i) {
      float expected = to_float(sources[0][i]);
      for (std::size_t s = 1; s < 3; ++s)
        expected = reference::combine(op, expected, to_float(sources[s][i]));
      if (divisor > 1) expected /= 3;
      const T wanted = from_float<T>(expected);
      ASSERT_EQ(result[i].bits, wanted.bits) << name_of(op) << ", element " << i;
      ASSERT_EQ(second[i].bits, wanted.bits);
    }
  }
}

TEST(Float8Kernels, AccumulateInF32AndRoundOnce) {
  check_float8<Float8E4M3>();
  check_float8<Float8E5M2>();
}

template <class T>
void check_complex() {
  using Complex = std::complex<T>;
  std::vector<std::vector<Complex>> sources(3, std::vector<Complex>(101));
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t i = 0; i < 101; ++i)
      sources[s][i] = {static_cast<T>(s * 3 + i % 7), static_cast<T>(i % 5) - static_cast<T>(s)};
  std::vector<Complex> sum(101), product(101), average(101), second(101);
  const DataType type = *data_type_of<Complex>;
  run(reduce_kernel(type, ReduceOp::sum), sources, sum, &second, 1);
  run(reduce_kernel(type, ReduceOp::average), sources, average, &second, 4);
  run(reduce_kernel(type, ReduceOp::product), sources, product, &second, 1);
  for (std::size_t i = 0; i < 101; ++i) {
    const Complex total = sources[0][i] + sources[1][i] + sources[2][i];
    ASSERT_EQ(sum[i], total);
    ASSERT_EQ(average[i], total / T{4});
    ASSERT_EQ(product[i], sources[0][i] * sources[1][i] * sources[2][i]);
  }
}

TEST(ComplexKernels, MatchTheStandardLibrary) {
  check_complex<float>();
  check_complex<double>();
  EXPECT_THROW(reduce_kernel(DataType::c64, ReduceOp::max), InvalidArgument);
}

/// Keeps the order visible: a ⊕ b = 10a + b.
void append_digit(const void* state, void* accumulator, const void* next, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto& a = static_cast<std::uint64_t*>(accumulator)[i];
    a = *static_cast<const std::uint64_t*>(state) * a + static_cast<const std::uint64_t*>(next)[i];
  }
}

TEST(UserKernel, CombinesInOrderAlsoInPlace) {
  const std::uint64_t base = 10;
  const UserReduction user{&append_digit, &base, sizeof(std::uint64_t)};
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::vector<std::uint64_t>> sources;
    for (std::uint64_t s = 1; s <= 3; ++s) sources.emplace_back(3000, s);
    const void* pointers[] = {sources[0].data(), sources[1].data(), sources[2].data()};
    std::vector<std::uint64_t> second(3000), third(3000);
    void* const further[] = {third.data()};
    user_kernel()({.destination = sources[place].data(),
                   .second_destination = second.data(),
                   .sources = pointers,
                   .source_count = 3,
                   .element_count = 3000,
                   .context = &user,
                   .further = further,
                   .further_count = 1});
    EXPECT_THAT(sources[place], testing::Each(123));
    EXPECT_THAT(second, testing::Each(123));
    EXPECT_THAT(third, testing::Each(123));
  }
}

template <class T>
std::vector<T> scaled(std::vector<T> values, double factor) {
  scale_kernel (*data_type_of<T>)(values.data(), values.data(), values.size(), factor);
  return values;
}

TEST(Scale, RoundsOnceToTheType) {
  EXPECT_THAT(scaled<float>({1, -2, 3}, 0.5), testing::ElementsAre(0.5f, -1.0f, 1.5f));
  EXPECT_THAT(scaled<std::int32_t>({1, -2, 3}, -2.9), testing::ElementsAre(-2, 4, -6));
  EXPECT_THAT(scaled<std::uint8_t>({100, 200}, 3), testing::ElementsAre(44, 88));
  EXPECT_EQ(to_float(scaled<BFloat16>({from_float<BFloat16>(3)}, 0.25)[0]), 0.75f);
  EXPECT_EQ((scaled<std::complex<double>>({{2, -4}}, 0.5)[0]), (std::complex<double>{1, -2}));
}

}  // namespace
}  // namespace capstan::kernels
