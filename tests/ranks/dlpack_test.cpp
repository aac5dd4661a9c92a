// SPDX-License-Identifier: Apache-2.0

// Tensors of other libraries, as DLPack describes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "capstan/tensor.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The structure of dlpack.h.
struct DlDevice {
  std::int32_t device_type, device_id;
};
struct DlType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

TEST(Dlpack, SaysWhatTensorsAre) {
  float memory[12];
  std::int64_t shape[] = {3, 2}, strides[] = {4, 2};
  DlTensor given{memory, {1, 0}, 2, {2, 32, 1}, shape, strides, 4};
  auto view = TensorView::from_dlpack(given);
  EXPECT_EQ(view.data, memory + 1);
  EXPECT_EQ(view.type, DataType::f32);
  EXPECT_THAT(view.strides, ElementsAre(4, 2));
  EXPECT_FALSE(view.is_dense());

  DlTensor back{};
  view.to_dlpack(back);
  EXPECT_EQ(back.ndim, 2);
  EXPECT_EQ(back.dtype.bits, 32);
  EXPECT_EQ(back.strides[0], 4);
  given.dtype = {2, 32, 4};
  EXPECT_THROW(TensorView::from_dlpack(given), InvalidArgument);
}

/// Every number that a library may put in: those of DLPack's other devices, and none of them.
TEST(Dlpack, TensorsOfUnknownDevicesAreNotReadAsHostMemory) {
  float memory[2];
  std::int64_t shape[] = {2};
  DlTensor given{memory, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  for (const std::int32_t type : {-1, 0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}) {
    given.device.device_type = type;
    if (is_known(static_cast<DeviceType>(type)))
      EXPECT_EQ(static_cast<std::int32_t>(TensorView::from_dlpack(given).device.type), type);
    else
      EXPECT_THAT(
          [&] { TensorView::from_dlpack(given); },
          ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("DLPack's type " + std::to_string(type)),
                                               HasSubstr("copy it to the host"))));
  }
  given.device.device_type = 1;
  given.ndim = -1;
  EXPECT_THROW(TensorView::from_dlpack(given), InvalidArgument);
}

}  // namespace
}  // namespace capstan
