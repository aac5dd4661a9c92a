// SPDX-License-Identifier: Apache-2.0
#include "capstan/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace capstan {
namespace {

/// The product of factors that are not negative; the greatest number where it would overflow.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;)
    strides[i] = std::exchange(stride, saturating_product(stride, shape[i]));
  return strides;
}

std::vector<std::int64_t> strides_of(const TensorView& tensor) {
  return tensor.strides.empty() ? dense_strides(tensor.shape) : tensor.strides;
}

/// Type codes of DLPack.
struct Code {
  DataType type;
  std::uint8_t code, bits;
};
constexpr std::array element_codes{
    Code{DataType::i8, 0, 8},       Code{DataType::i32, 0, 32},    Code{DataType::i64, 0, 64},
    Code{DataType::u8, 1, 8},       Code{DataType::u32, 1, 32},    Code{DataType::u64, 1, 64},
    Code{DataType::f16, 2, 16},     Code{DataType::f32, 2, 32},    Code{DataType::f64, 2, 64},
    Code{DataType::bf16, 4, 16},    Code{DataType::c64, 5, 64},    Code{DataType::c128, 5, 128},
    Code{DataType::f8_e4m3, 10, 8}, Code{DataType::f8_e5m2, 12, 8}};

}  // namespace

TensorView::TensorView(void* memory, DataType element, std::vector<std::int64_t> lengths,
                       std::vector<std::int64_t> steps, Device place)
    : data(memory),
      type(element),
      shape(std::move(lengths)),
      strides(std::move(steps)),
      device(place) {
  if (!strides.empty() && strides.size() != shape.size())
    throw InvalidArgument(
        fmt::format("a tensor of {} dimensions with {} strides: give one for each", shape.size(),
                    strides.size()));
  if (std::ranges::any_of(shape, [](std::int64_t length) { return length < 0; }))
    throw InvalidArgument(
        fmt::format("a tensor of shape [{}]: lengths are not negative", fmt::join(shape, ", ")));
}

bool is_known(DeviceType type) {
  switch (type) {
    case DeviceType::cpu:
    case DeviceType::cuda:
    case DeviceType::cuda_host:
    case DeviceType::rocm:
    case DeviceType::rocm_host:
    case DeviceType::cuda_managed:
      return true;
  }
  return false;
}

std::size_t TensorView::dimensions_of_dlpack(std::int32_t number, Device device) {
  if (!is_known(device.type))
    throw InvalidArgument(
        fmt::format("a tensor is on a device of DLPack's type {}, whose memory Capstan cannot "
                    "read: copy it to the host",
                    static_cast<int>(device.type)));
  if (number < 0)
    throw InvalidArgument(
        fmt::format("a tensor of DLPack's has {} dimensions: 0 or more exist", number));
  return static_cast<std::size_t>(number);
}

DataType TensorView::data_type_of_dlpack(std::uint8_t code, std::uint8_t bits,
                                         std::uint16_t lanes) {
  const auto found = std::ranges::find_if(
      element_codes, [&](const Code& known) { return known.code == code && known.bits == bits; });
  if (found == element_codes.end() || lanes != 1)
    throw InvalidArgument(
        fmt::format("DLPack's type code {} of {} bits and {} lanes is no element type of Capstan",
                    code, bits, lanes));
  return found->type;
}

TensorView::DlpackType TensorView::dlpack_type_of(DataType type) {
  const auto found = std::ranges::find(element_codes, type, &Code::type);
  if (found == element_codes.end())
    throw InvalidArgument(fmt::format("DLPack has no type code for {}", name_of(type)));
  return {found->code, found->bits};
}

Elements TensorView::count() const {
  if (std::ranges::find(shape, 0) != shape.end()) return Elements{0};
  return Elements{static_cast<std::uint64_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, saturating_product))};
}

bool TensorView::is_dense() const {
  if (strides.empty() || count() == Elements{0}) return true;
  const auto dense = dense_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && strides[i] != dense[i]) return false;
  return true;
}

TensorView TensorView::slice(int dimension, std::int64_t first, std::int64_t length) const {
  const auto d = static_cast<std::size_t>(dimension);
  TensorView part = *this;
  part.strides = strides_of(*this);
  part.shape[d] = length;
  const auto bytes = static_cast<std::int64_t>(size_of(type).value());
  part.data = static_cast<std::byte*>(data) + first * part.strides[d] * bytes;
  return part;
}

std::string to_string(const TensorView& tensor) {
  return fmt::format("{}[{}]", name_of(tensor.type), fmt::join(tensor.shape, ", "));
}

void copy(const TensorView& to, const TensorView& from) {
  copy(to, from,
       [](void* into, const void* data, std::size_t size) { std::memcpy(into, data, size); });
}

void copy(const TensorView& to, const TensorView& from, const CopyRun& copy_run) {
  const std::size_t bytes = size_of(to.type).value();
  if (to.count() == Elements{0}) return;
  if (to.is_dense() && from.is_dense()) {
    copy_run(to.data, from.data, to.count().value() * bytes);
    return;
  }
  // Recursive: a loop over the first dimension copies each of its slices.
  const TensorView to_first = to.slice(0, 0, 1), from_first = from.slice(0, 0, 1);
  const auto below = [](const TensorView& tensor, std::int64_t i, std::size_t element) {
    TensorView part{static_cast<std::byte*>(tensor.data) +
                        i * tensor.strides[0] * static_cast<std::int64_t>(element),
                    tensor.type,
                    {tensor.shape.begin() + 1, tensor.shape.end()},
                    {tensor.strides.begin() + 1, tensor.strides.end()}};
    return part;
  };
  for (std::int64_t i = 0; i < to.shape[0]; ++i)
    copy(below(to_first, i, bytes), below(from_first, i, bytes), copy_run);
}

}  // namespace capstan
