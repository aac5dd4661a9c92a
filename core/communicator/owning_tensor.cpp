// SPDX-License-Identifier: Apache-2.0
#include "capstan/owning_tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <new>

namespace capstan {
namespace {

constexpr std::align_val_t alignment{64};

std::byte* allocate(const TensorView& wanted) {
  const std::uint64_t count = wanted.count().value(), element = size_of(wanted.type).value();
  const bool countable = count <= std::numeric_limits<std::int64_t>::max() / element;
  void* memory = countable ? operator new(count * element, alignment, std::nothrow) : nullptr;
  if (!memory)
    throw LimitReached(fmt::format("no memory for a tensor {}: use a smaller one, or split it",
                                   to_string(wanted)));
  return static_cast<std::byte*>(memory);
}

bool is_on_host(const TensorView& view) {
  return view.device.type == DeviceType::cpu || view.device.type == DeviceType::cuda_host ||
         view.device.type == DeviceType::rocm_host;
}

}  // namespace

void Tensor::Free::operator()(std::byte* memory) const {
  operator delete(memory, alignment);
}

Tensor::Tensor(DataType type, std::vector<std::int64_t> shape)
    : type_(type), shape_(std::move(shape)) {
  const TensorView wanted = view();
  count_ = wanted.count().value();
  memory_.reset(allocate(wanted));
  std::memset(memory_.get(), 0, bytes().value());
}

Tensor::Tensor(const TensorView& view) : type_(view.type), shape_(view.shape) {
  if (!is_on_host(view))
    throw InvalidArgument(fmt::format(
        "a tensor cannot be made from {} on a device: copy it to the host first", to_string(view)));
  count_ = view.count().value();
  memory_.reset(allocate(this->view()));
  copy(this->view(), view);
}

Tensor::Tensor(DataType type, const void* elements, std::size_t count,
               std::vector<std::int64_t> shape)
    : Tensor(TensorView{const_cast<std::byte*>(static_cast<const std::byte*>(elements)),
                        type,
                        {static_cast<std::int64_t>(count)}}) {
  reshape(std::move(shape));
}

Tensor::Tensor(const Tensor& other)
    : type_(other.type_), shape_(other.shape_), count_(other.count_) {
  if (!other.memory_) return;
  memory_.reset(allocate(view()));
  std::memcpy(memory_.get(), other.memory_.get(), bytes().value());
}

Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) *this = Tensor(other);
  return *this;
}

Tensor::Tensor(Tensor&& other) noexcept
    : type_(std::exchange(other.type_, DataType::f32)),
      shape_(std::exchange(other.shape_, {0})),
      count_(std::exchange(other.count_, 0)),
      memory_(std::move(other.memory_)) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  type_ = std::exchange(other.type_, DataType::f32);
  shape_ = std::exchange(other.shape_, {0});
  count_ = std::exchange(other.count_, 0);
  memory_ = std::move(other.memory_);
  return *this;
}

void Tensor::reshape(std::vector<std::int64_t> shape) {
  const TensorView wanted{memory_.get(), type_, shape};
  if (wanted.count() != count())
    throw InvalidArgument(
        fmt::format("{} elements do not make a tensor {}: lengths have to multiply "
                    "to the number of elements",
                    count_, to_string(wanted)));
  shape_ = std::move(shape);
}

bool Tensor::operator==(const Tensor& other) const {
  return type_ == other.type_ && shape_ == other.shape_ &&
         (count_ == 0 || std::memcmp(memory_.get(), other.memory_.get(), bytes().value()) == 0);
}

void Tensor::check_type(DataType asked) const {
  if (asked != type_)
    throw InvalidArgument(
        fmt::format("elements of {} were asked for as {}: ask for the tensor's type",
                    capstan::to_string(*this), name_of(asked)));
}

}  // namespace capstan
