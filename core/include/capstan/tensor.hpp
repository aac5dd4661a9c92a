// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "capstan/export.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The kind of device that memory is on; the numbers are DLPack's.
enum class DeviceType : std::int32_t {
  cpu = 1,
  cuda = 2,
  cuda_host = 3,
  rocm = 10,
  rocm_host = 11,
  cuda_managed = 13
};

/// Whether the number, which may come from another library, is one of a DeviceType.
bool is_known(DeviceType type);

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int32_t index = 0;

  bool operator==(const Device&) const = default;
};

/// An array of any number of dimensions, as DLPack describes it. Does not own its memory.
/// Dimensions are counted from 0; strides count elements.
struct TensorView {
  void* data = nullptr;
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> strides{};  ///< empty: dense, the last dimension runs fastest
  Device device{};

  /// Throws InvalidArgument for a negative length, or strides for another number of dimensions.
  TensorView(void* memory, DataType element, std::vector<std::int64_t> lengths,
             std::vector<std::int64_t> steps = {}, Device place = {});
  template <Element T>
  TensorView(T* memory, std::vector<std::int64_t> lengths, std::vector<std::int64_t> steps = {})
      : TensorView(memory, *data_type_of<T>, std::move(lengths), std::move(steps)) {}

  /// The view of a DLTensor (dlpack.h), which this header does not need. Throws InvalidArgument for
  /// element types and devices that Capstan does not know, and for a negative number of dimensions.
  template <class DlTensor>
  static TensorView from_dlpack(const DlTensor& tensor) {
    const Device device{static_cast<DeviceType>(tensor.device.device_type),
                        tensor.device.device_id};
    const std::size_t dimensions = dimensions_of_dlpack(tensor.ndim, device);
    std::vector<std::int64_t> steps;
    if (tensor.strides) steps.assign(tensor.strides, tensor.strides + dimensions);
    return {static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
            data_type_of_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
            {tensor.shape, tensor.shape + dimensions},
            std::move(steps),
            device};
  }
  /// Fills a DLTensor, whose shape and strides point into this view.
  template <class DlTensor>
  void to_dlpack(DlTensor& tensor) {
    const DlpackType code = dlpack_type_of(type);
    tensor.data = data;
    tensor.byte_offset = 0;
    tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    tensor.dtype.code = code.code;
    tensor.dtype.bits = code.bits;
    tensor.dtype.lanes = 1;
    tensor.device.device_type =
        static_cast<decltype(tensor.device.device_type)>(static_cast<std::int32_t>(device.type));
    tensor.device.device_id = device.index;
  }

  /// 2^63 - 1 if there are more.
  Elements count() const;
  /// Whether the elements lie one after another, in order.
  bool is_dense() const;
  /// Whether two indices mean one element (a stride of 0, windows that overlap), so that a result
  /// for each would have no place. Takes the places of more than 2^24 elements whose strides
  /// interleave for equal.
  bool overlaps_itself() const;
  /// Elements `first` .. `first + length - 1` along a dimension.
  TensorView slice(int dimension, std::int64_t first, std::int64_t length) const;

 private:
  struct DlpackType {
    std::uint8_t code, bits;
  };
  static std::size_t dimensions_of_dlpack(std::int32_t number, Device device);
  static DataType data_type_of_dlpack(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes);
  static DlpackType dlpack_type_of(DataType type);
};

/// "f32[2, 3]".
std::string to_string(const TensorView& tensor);

/// Copies runs of adjacent elements between tensors of the same shape and type, which do not
/// overlap. `copy_run` copies one run; memcpy(3) if none is given.
using CopyRun = std::function<void(void* to, const void* from, std::size_t bytes)>;
void copy(const TensorView& to, const TensorView& from, const CopyRun& copy_run);
void copy(const TensorView& to, const TensorView& from);

}  // namespace CAPSTAN_EXPORT capstan
