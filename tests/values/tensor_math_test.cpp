// SPDX-License-Identifier: Apache-2.0

// Arithmetic of tensors, against the same in a loop.

#include "capstan/values/tensor_math.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TensorMath, WorksElementByElementInTheTensorsType) {
  const auto a = Tensor::of<float>({1, 2, 3}), b = Tensor::of<float>({4, 8, 2});
  EXPECT_THAT((a + b).elements<float>(), ElementsAre(5, 10, 5));
  EXPECT_THAT((a - b).elements<float>(), ElementsAre(-3, -6, 1));
  EXPECT_THAT((a * b).elements<float>(), ElementsAre(4, 16, 6));
  EXPECT_THAT((a / b).elements<float>(), ElementsAre(0.25F, 0.25F, 1.5F));
  EXPECT_THAT((-a + 1.0).elements<float>(), ElementsAre(0, -1, -2));
  EXPECT_THAT((6.0 / a - 1.0).elements<float>(), ElementsAre(5, 2, 1));
  EXPECT_THAT((2.0 * a * 3.0 / 6.0).elements<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT((1.0 - a + (0.5 + a)).elements<float>(), ElementsAre(1.5F, 1.5F, 1.5F));
  Tensor c = a;
  c += b;
  c -= a;
  c *= 2.0;
  c /= b;
  EXPECT_THAT(c.elements<float>(), ElementsAre(2, 2, 2));
}

TEST(TensorMath, HasElementaryFunctions) {
  const auto x = Tensor::of<double>({0.3, 1.7});
  const auto expect = [&](const Tensor& result, double (*function)(double)) {
    EXPECT_THAT(result.elements<double>(), ElementsAre(function(0.3), function(1.7)));
  };
  expect(exp(x), std::exp);
  expect(log(x), std::log);
  expect(sin(x), std::sin);
  expect(cos(x), std::cos);
  expect(tan(x), std::tan);
  expect(tanh(x), std::tanh);
  expect(sqrt(x), std::sqrt);
  EXPECT_THAT(pow(x, 3).elements<double>(), ElementsAre(std::pow(0.3, 3), std::pow(1.7, 3)));
}

TEST(TensorMath, MultipliesMatrices) {
  const auto a = Tensor::of<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto b = Tensor::of<double>({1, 0, 0, 1, 2, 2}, {3, 2});
  EXPECT_EQ(matmul(a, b), (Tensor::of<double>({7, 8, 16, 17}, {2, 2})));
  EXPECT_EQ(transpose(a), (Tensor::of<double>({1, 4, 2, 5, 3, 6}, {3, 2})));
  EXPECT_EQ(matmul(Tensor{DataType::f32, {2, 0}}, Tensor{DataType::f32, {0, 2}}),
            (Tensor{DataType::f32, {2, 2}}));
}

TEST(TensorMath, AddsUpAndFills) {
  const auto a = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(to_number(sum(a)), 10);
  EXPECT_EQ(sum(a).shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(filled_like(a, sum(a)), (Tensor::of<float>({10, 10, 10, 10}, {2, 2})));
  EXPECT_EQ(filled_like(a, 0.5), (Tensor::of<float>({.5F, .5F, .5F, .5F}, {2, 2})));
}

TEST(TensorMath, RefusesWhatDoesNotFit) {
  const auto a = Tensor::of<float>({1, 2}), b = Tensor::of<float>({1, 2, 3});
  EXPECT_THAT([&] { (void)(a + b); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the sum of f32[2] and f32[3]")));
  EXPECT_THAT([&] { (void)(a * Tensor::of<double>({1, 2})); },
              ThrowsMessage<InvalidArgument>(HasSubstr("f64[2]")));
  EXPECT_THAT([&] { (void)matmul(a, b); }, ThrowsMessage<InvalidArgument>(HasSubstr("matrix")));
  EXPECT_THAT([&] { (void)transpose(a); }, ThrowsMessage<InvalidArgument>(HasSubstr("f32[2]")));
  EXPECT_THAT([&] { (void)-Tensor::of<std::int32_t>({1}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("i32[1]")));
  EXPECT_THAT([&] { (void)to_number(a); }, ThrowsMessage<InvalidArgument>(HasSubstr("f32[2]")));
}

}  // namespace
}  // namespace capstan
