// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capstan/foreign_type.hpp"
#include "capstan/tensor.hpp"
#include "element_types.hpp"
#include "layout.hpp"

namespace capstan::python {

namespace py = pybind11;

/// The memory of a Python object while a call uses it: the buffer protocol (numpy, array.array,
/// memoryview, bytearray), DLPack (PyTorch, JAX, CuPy) or an array interface. Holds the export, so
/// that the owner can neither free nor resize the memory. Needs the GIL for all but reads.
class Array {
 public:
  /// An array without elements.
  Array() = default;
  /// Throws a Python TypeError or BufferError that says what `object` should be.
  static Array readable(py::handle object, Use use = Use::combined);
  static Array writable(py::handle object, Use use = Use::combined);

  Array(Array&&) noexcept;
  Array& operator=(Array&&) noexcept;
  ~Array();

  void* data() const { return data_; }
  DataType type() const { return type_; }
  std::size_t count() const { return count_; }
  /// The number of them in one of the object's: its bytes, where elements travel as bytes.
  std::size_t pieces() const { return pieces_; }
  /// Elements lie one after another, in C order.
  bool is_dense() const { return is_dense_; }
  /// Elements are Python's or numpy's booleans, held as u8.
  bool is_bool() const { return foreign_ == ForeignType::boolean(); }
  /// The kind of elements that travel as u8, where they are other than numbers of 8 bits.
  const ForeignType& foreign() const { return foreign_; }
  /// The element type for texts: "f32", "bool", "datetime64[s]".
  std::string element_name() const;
  /// The memory is the processor's.
  bool is_on_host() const { return is_on_host_; }
  /// In elements of the object.
  std::vector<std::int64_t> shape() const;
  TensorView view() const;
  /// A dense copy, with memory of its own. Only of memory on the host.
  Array packed() const;

 private:
  /// With `type`, elements of that size are taken to be of that type.
  using Type = std::optional<DataType>;
  /// How memory is asked for.
  struct Wish {
    bool writes = false;
    Use use = Use::combined;
    Type type{};
  };
  static Array of(py::handle object, const Wish& wish);
  static std::optional<Array> from_buffer(py::handle object, const Wish& wish);
  static std::optional<Array> from_dlpack(py::handle object, const Wish& wish);
  static std::optional<Array> from_interface(py::handle object, const char* name, const Wish& wish);
  void set_layout(Layout layout, const Wish& wish);
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t count_ = 0, pieces_ = 1;
  DataType type_ = DataType::u8;
  ForeignType foreign_{};
  bool is_dense_ = true, is_on_host_ = true;
  Py_buffer buffer_{};                ///< the export; buffer_.obj is null without one
  py::object owner_;                  ///< of memory that no buffer exports
  void* dlpack_ = nullptr;            ///< a DLManagedTensor, which is deleted at the end
  std::optional<TensorView> tensor_;  ///< unless a dense buffer has shape and strides; in pieces
};

/// An array whose elements are of another type than its own: bf16 in an array of uint16.
struct Typed {
  py::object array;
  DataType type;
};

}  // namespace capstan::python
