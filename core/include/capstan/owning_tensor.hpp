// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>

#include "capstan/export.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// An array of any number of dimensions that owns its memory: in the host's memory, dense, the last
/// dimension runs fastest, 64-byte aligned. A copy copies the elements. One that has been moved
/// from is empty, like a Tensor{}: f32[0]. As with std::vector, different tensors may be used by
/// different threads, and one by several threads that only read.
class Tensor {
 public:
  Tensor() noexcept = default;
  /// Zeros. Throws InvalidArgument for a negative length, LimitReached where memory does not
  /// suffice.
  Tensor(DataType type, std::vector<std::int64_t> shape);
  /// A copy of the elements of a view, which may have strides and lies in the host's memory
  /// (InvalidArgument if not).
  explicit Tensor(const TensorView& view);
  /// These elements in this order: of one dimension, or of a shape that holds as many, else
  /// InvalidArgument.
  template <Element T>
  static Tensor of(std::span<const T> elements, std::vector<std::int64_t> shape) {
    return {*data_type_of<T>, elements.data(), elements.size(), std::move(shape)};
  }
  template <Element T>
  static Tensor of(std::initializer_list<T> elements) {
    return of(std::span<const T>(elements.begin(), elements.size()),
              {static_cast<std::int64_t>(elements.size())});
  }
  template <Element T>
  static Tensor of(std::initializer_list<T> elements, std::vector<std::int64_t> shape) {
    return of(std::span<const T>(elements.begin(), elements.size()), std::move(shape));
  }

  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;

  DataType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  Elements count() const { return Elements{count_}; }
  Bytes bytes() const { return bytes_of(count(), size_of(type_)); }
  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }

  /// A view of this memory, valid until the tensor is assigned to, moved from or destroyed. The
  /// view of a const tensor may only be read.
  TensorView view() { return {memory_.get(), type_, shape_}; }
  TensorView view() const { return {memory_.get(), type_, shape_}; }
  /// Calls on tensors take it as it is; not one that is about to go.
  operator TensorView() & { return view(); }
  operator TensorView() const& { return view(); }
  operator TensorView() const&& = delete;

  /// The elements in order. Throws InvalidArgument if T is another type than type().
  template <Element T>
  std::span<T> elements() {
    check_type(*data_type_of<T>);
    return {reinterpret_cast<T*>(memory_.get()), count_};
  }
  template <Element T>
  std::span<const T> elements() const {
    check_type(*data_type_of<T>);
    return {reinterpret_cast<const T*>(memory_.get()), count_};
  }

  /// The same elements in another shape of as many elements, else InvalidArgument.
  void reshape(std::vector<std::int64_t> shape);

  /// The same type, shape and bytes: two NaNs of the same bits are equal, 0.0 and -0.0 are not.
  bool operator==(const Tensor& other) const;

 private:
  Tensor(DataType type, const void* elements, std::size_t count, std::vector<std::int64_t> shape);
  void check_type(DataType asked) const;

  struct Free {
    void operator()(std::byte* memory) const;
  };

  DataType type_ = DataType::f32;
  std::vector<std::int64_t> shape_{0};
  std::size_t count_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
};

/// "f32[2, 3]".
inline std::string to_string(const Tensor& tensor) {
  return to_string(tensor.view());
}

}  // namespace CAPSTAN_EXPORT capstan
