// SPDX-License-Identifier: Apache-2.0

// The tensor that owns its memory.

#include "capstan/owning_tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(OwningTensor, BeginsAsZeros) {
  const Tensor tensor{DataType::i32, {2, 3}};
  EXPECT_EQ(to_string(tensor), "i32[2, 3]");
  EXPECT_EQ(tensor.count(), Elements{6});
  EXPECT_EQ(tensor.bytes(), Bytes{24});
  EXPECT_THAT(tensor.elements<std::int32_t>(), Each(0));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
}

TEST(OwningTensor, HoldsWhatItIsMadeOf) {
  EXPECT_THAT(Tensor::of<double>({1, 2, 3}).elements<double>(), ElementsAre(1, 2, 3));
  const auto matrix = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(matrix.shape(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_THAT(matrix.elements<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(OwningTensor, HasNoDimensionsAndLengthsOfZero) {
  EXPECT_EQ((Tensor{DataType::f64, {}}).count(), Elements{1});
  EXPECT_THAT((Tensor{DataType::f64, {3, 0}}).elements<double>(), IsEmpty());
  EXPECT_EQ((Tensor{DataType::f64, {3, 0}}), (Tensor{DataType::f64, {3, 0}}));
}

TEST(OwningTensor, IsMadeFromAViewWithStrides) {
  float memory[] = {0, 1, 2, 3, 4, 5};
  const Tensor columns{TensorView{memory, {3, 2}, {1, 3}}};  // the transpose of 2 x 3
  EXPECT_THAT(columns.elements<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  memory[0] = 7;
  EXPECT_EQ(columns.elements<float>()[0], 0);
}

TEST(OwningTensor, IsSeenThroughItsView) {
  auto tensor = Tensor::of<std::int64_t>({1, 2, 3, 4}, {2, 2});
  const TensorView view = tensor.view();
  static_cast<std::int64_t*>(view.data)[3] = 40;
  EXPECT_THAT(tensor.elements<std::int64_t>(), ElementsAre(1, 2, 3, 40));
  EXPECT_EQ(Tensor{view.slice(0, 1, 1)}, (Tensor::of<std::int64_t>({3, 40}, {1, 2})));
}

TEST(OwningTensor, CopiesElements) {
  auto first = Tensor::of<float>({1, 2});
  Tensor second = first, third;
  third = first;
  first.elements<float>()[0] = 9;
  EXPECT_THAT(second.elements<float>(), ElementsAre(1, 2));
  EXPECT_EQ(second, third);
  EXPECT_NE(second, first);
  const Tensor& same = second;
  second = same;
  EXPECT_EQ(second, third);
}

TEST(OwningTensor, IsEmptyWhenMovedFrom) {
  auto first = Tensor::of<std::int32_t>({1, 2});
  const std::byte* const memory = first.data();
  Tensor second = std::move(first);
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(first, Tensor{});  // NOLINT(bugprone-use-after-move): this is what is promised
  first = std::move(second);
  EXPECT_EQ(first.data(), memory);
  EXPECT_EQ(to_string(second), "f32[0]");  // NOLINT(bugprone-use-after-move)
}

TEST(OwningTensor, TellsTypesAndShapesApart) {
  EXPECT_NE(Tensor::of<float>({0}), Tensor::of<std::int32_t>({0}));
  EXPECT_NE(Tensor::of<float>({1, 2}, {1, 2}), Tensor::of<float>({1, 2}, {2, 1}));
}

TEST(OwningTensor, RefusesWhatCannotBe) {
  EXPECT_THAT((void (*)())([] { Tensor(DataType::f32, {2, -1}); }),
              ThrowsMessage<InvalidArgument>(HasSubstr("not negative")));
  EXPECT_THAT((void (*)())([] { Tensor(DataType::f64, {std::int64_t{1} << 40, 1 << 20}); }),
              ThrowsMessage<LimitReached>(HasSubstr("f64[1099511627776, 1048576]")));
  EXPECT_THAT(
      (void (*)())([] { Tensor::of<float>({1, 2, 3}, {2, 2}); }),
      ThrowsMessage<InvalidArgument>(HasSubstr("3 elements do not make a tensor f32[2, 2]")));
  EXPECT_THAT((void (*)())([] { (void)Tensor::of<float>({1}).elements<double>(); }),
              ThrowsMessage<InvalidArgument>(HasSubstr("f32[1] were asked for as f64")));
  EXPECT_THAT((void (*)())([] {
                float cell = 0;
                Tensor(TensorView{&cell, DataType::f32, {1}, {}, {DeviceType::cuda, 0}});
              }),
              ThrowsMessage<InvalidArgument>(HasSubstr("on a device")));
}

}  // namespace
}  // namespace capstan
