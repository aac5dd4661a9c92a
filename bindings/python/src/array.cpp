// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "capstan/error.hpp"
#include "refusals.hpp"

namespace capstan::python {
namespace {

/// Stands for elements of any size where only shape and strides are read.
constexpr DLDataType byte_elements{kDLUInt, 8, 1};

/// The array that `managed` exports, as Capstan knows it: elements of other types are bytes, and
/// `foreign` tells which.
TensorView exported(DLTensor told, std::size_t bytes, Use use, ForeignType& foreign) {
  try {
    return TensorView::from_dlpack(told);
  } catch (const InvalidArgument&) {
    if (use == Use::combined || bytes == 0) throw;
    foreign = foreign_type(bytes, std::exchange(told.dtype, byte_elements));
    return TensorView::from_dlpack(told);
  }
}

}  // namespace

Array::Array(Array&& other) noexcept {
  *this = std::move(other);
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = other.data_;
  count_ = other.count_;
  pieces_ = other.pieces_;
  type_ = other.type_;
  is_dense_ = other.is_dense_;
  foreign_ = other.foreign_;
  is_on_host_ = other.is_on_host_;
  // Its shape and strides may point into itself, as those of bytes do.
  buffer_ = other.buffer_;
  if (buffer_.shape == &other.buffer_.len) buffer_.shape = &buffer_.len;
  if (buffer_.strides == &other.buffer_.itemsize) buffer_.strides = &buffer_.itemsize;
  other.buffer_ = {};
  owner_ = std::move(other.owner_);
  dlpack_ = std::exchange(other.dlpack_, nullptr);
  tensor_ = std::move(other.tensor_);
  return *this;
}

Array::~Array() {
  release();
}

void Array::release() noexcept {
  if (buffer_.obj) PyBuffer_Release(&buffer_);
  if (auto* tensor = static_cast<DLManagedTensor*>(std::exchange(dlpack_, nullptr));
      tensor && tensor->deleter)
    tensor->deleter(tensor);
}

Array Array::readable(py::handle object, Use use) {
  return of(object, {.writes = false, .use = use});
}

Array Array::writable(py::handle object, Use use) {
  return of(object, {.writes = true, .use = use});
}

Array Array::of(py::handle object, const Wish& wish) {
  check_mask(object);
  if (auto array = from_buffer(object, wish)) return std::move(*array);
  if (py::isinstance<Typed>(object)) {
    const auto& typed = object.cast<const Typed&>();
    return of(typed.array, {.writes = wish.writes, .use = wish.use, .type = typed.type});
  }
  check_pending(object);
  if (auto array = from_interface(object, "__cuda_array_interface__", wish))
    return std::move(*array);
  // numpy exports dates by its own interface alone.
  const bool is_numpy = py::hasattr(object, "__array_interface__");
  if (!is_numpy || wish.use == Use::combined) try {
      if (auto array = from_dlpack(object, wish)) return std::move(*array);
    } catch (const py::error_already_set& error) {
      if (!is_numpy || !error.matches(PyExc_BufferError)) throw;
    }
  if (auto array = from_interface(object, "__array_interface__", wish)) return std::move(*array);
  throw py::type_error(
      fmt::format("a {} has no memory to move: pass a numpy array, a tensor, an array.array, a "
                  "memoryview, or another object with the buffer protocol or DLPack",
                  type_name(object)));
}

std::optional<Array> Array::from_buffer(py::handle object, const Wish& wish) {
  if (!PyObject_CheckBuffer(object.ptr())) return std::nullopt;
  Array array;
  const int flags = PyBUF_FORMAT | PyBUF_STRIDES | (wish.writes ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &array.buffer_, flags) != 0) {
    array.buffer_ = {};
    // numpy refuses to export some types (bf16 of ml_dtypes, which DLPack may have, and dates), and
    // results in read-only arrays: its interface says which.
    const py::error_already_set refusal;
    if (refusal.matches(PyExc_ValueError) && !refusal.matches(PyExc_BufferError) &&
        py::hasattr(object, "__array_interface__"))
      return std::nullopt;
    throw refusal;
  }
  const Py_buffer& buffer = array.buffer_;
  const std::string_view format = buffer.format ? buffer.format : "B";
  const auto bytes = static_cast<std::size_t>(buffer.itemsize);
  check_elements(format, bytes);
  const auto own = element_type(format, bytes);
  if (!own) check_exporter(buffer);
  if (!own && wish.writes) check_gaps(object);
  const auto element = chosen(wish.type, bytes, own, wish.use);
  if (!element) refuse_elements(object, format);
  array.data_ = buffer.buf;
  array.type_ = element->type;
  array.pieces_ = element->pieces;
  array.foreign_ = foreign_type(*element, object, format);
  array.count_ = static_cast<std::size_t>(buffer.len / buffer.itemsize) * element->pieces;
  array.is_dense_ = PyBuffer_IsContiguous(&buffer, 'C') != 0;
  if (!array.is_dense_)
    array.set_layout({.data = buffer.buf,
                      .type = array.type_,
                      .shape = {buffer.shape, buffer.shape + buffer.ndim},
                      .byte_strides = {buffer.strides, buffer.strides + buffer.ndim}},
                     wish);
  return array;
}

/// `layout` is in elements of the object.
void Array::set_layout(Layout layout, const Wish& wish) {
  if (pieces_ > 1) {
    if (!layout.byte_strides.empty()) layout.byte_strides.push_back(1);
    layout.shape.push_back(static_cast<std::int64_t>(pieces_));
  }
  is_on_host_ = layout.device.type == DeviceType::cpu;
  tensor_ = exact_view(std::move(layout), wish.writes);
  data_ = tensor_->data;
  type_ = tensor_->type;
  count_ = tensor_->count().value();
  is_dense_ = tensor_->is_dense();
}

std::optional<Array> Array::from_dlpack(py::handle object, const Wish& wish) {
  if (!py::hasattr(object, "__dlpack__")) return std::nullopt;
  const py::object capsule = object.attr("__dlpack__")();
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw py::error_already_set();
  Array array;
  array.dlpack_ = managed;
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  DLTensor told = managed->dl_tensor;  // the exporter's own may be exported again
  check_dlpack(object, told);
  DLDataType& own = told.dtype;
  const std::size_t bytes = own.bits % 8U == 0 ? own.bits / 8U * own.lanes : 0;
  constexpr DLDataType boolean{6, 8, 1};  // kDLBool of later versions
  if (!wish.type && own.code == boolean.code && own.bits == boolean.bits &&
      own.lanes == boolean.lanes) {
    array.foreign_ = ForeignType::boolean();
    own = byte_elements;
  }
  if (wish.type) {
    chosen(wish.type, bytes, {}, wish.use);
    own = byte_elements;
  }
  const TensorView view = exported(told, bytes, wish.use, array.foreign_);
  const DataType type = wish.type.value_or(view.type);
  array.pieces_ = bytes / size_of(type).value();
  Layout layout{.data = view.data,
                .type = type,
                .shape = view.shape,
                .byte_strides = view.strides,
                .device = view.device};
  for (std::int64_t& stride : layout.byte_strides) stride *= static_cast<std::int64_t>(bytes);
  array.set_layout(std::move(layout), wish);
  return array;
}

std::optional<Array> Array::from_interface(py::handle object, const char* name, const Wish& wish) {
  if (!py::hasattr(object, name)) return std::nullopt;
  const py::dict interface = object.attr(name);
  const auto typestr = interface["typestr"].cast<std::string>();
  check_elements(typestr, element_bytes(typestr));
  if (typestr.size() > 1 && typestr[1] == 'V') {
    check_record(object, interface);
    if (wish.writes) check_gaps(object);
  }
  const auto element =
      chosen(wish.type, element_bytes(typestr), element_type_of_interface(typestr), wish.use);
  if (!element) refuse_elements(object, typestr);
  if (interface.contains("mask") && !interface["mask"].is_none())
    throw py::buffer_error("the array has a mask, which a result cannot have: pass its values");
  if (!interface.contains("data") || !py::isinstance<py::tuple>(interface["data"]))
    throw py::type_error(fmt::format(
        "the array interface of this {} has no address (`data` is no tuple): pass the object that "
        "has the memory",
        type_name(object)));
  const py::tuple data = interface["data"];
  if (wish.writes && data[1].cast<bool>())
    throw py::buffer_error("the array is read-only: pass a copy");
  std::vector<std::int64_t> shape, strides;
  for (const py::handle length : py::tuple(interface["shape"]))
    shape.push_back(length.cast<std::int64_t>());
  if (interface.contains("strides") && !interface["strides"].is_none())
    for (const py::handle stride : py::tuple(interface["strides"]))
      strides.push_back(stride.cast<std::int64_t>());

  Array array;
  array.owner_ = py::reinterpret_borrow<py::object>(object);
  array.pieces_ = element->pieces;
  array.foreign_ = foreign_type(*element, object, typestr);
  array.set_layout({.data = reinterpret_cast<void*>(data[0].cast<std::uintptr_t>()),
                    .type = element->type,
                    .shape = std::move(shape),
                    .byte_strides = std::move(strides)},
                   wish);
  array.is_on_host_ = name == std::string_view{"__array_interface__"};
  return array;
}

std::vector<std::int64_t> Array::shape() const {
  if (tensor_) return {tensor_->shape.begin(), tensor_->shape.end() - (pieces_ > 1 ? 1 : 0)};
  if (!buffer_.obj) return {static_cast<std::int64_t>(count_ / pieces_)};
  return {buffer_.shape, buffer_.shape + buffer_.ndim};
}

std::string Array::element_name() const {
  if (is_bool()) return "bool";
  return foreign_.name ? foreign_.name : to_string(type_, foreign_);
}

TensorView Array::view() const {
  if (tensor_) return *tensor_;
  auto in_pieces = shape();
  if (pieces_ > 1) in_pieces.push_back(static_cast<std::int64_t>(pieces_));
  return TensorView{data_, type_, std::move(in_pieces)};
}

Array Array::packed() const {
  const std::size_t bytes = count_ * size_of(type_).value();
  Array copied;
  copied.owner_ = py::reinterpret_steal<py::object>(
      PyByteArray_FromStringAndSize(nullptr, static_cast<py::ssize_t>(bytes)));
  if (!copied.owner_) throw py::error_already_set();
  copied.data_ = PyByteArray_AS_STRING(copied.owner_.ptr());
  copied.count_ = count_;
  copied.pieces_ = pieces_;
  copied.type_ = type_;
  copied.foreign_ = foreign_;
  copied.tensor_ = TensorView{copied.data_, type_, view().shape};
  copy(*copied.tensor_, view());
  return copied;
}

}  // namespace capstan::python
