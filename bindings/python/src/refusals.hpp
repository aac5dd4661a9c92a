// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlpack/dlpack.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <string_view>

// Arrays whose memory does not hold the values that they show, or holds no values.

namespace capstan::python {

namespace py = pybind11;

/// Throws a Python TypeError for elements that no element type describes, also where the program
/// says what they are: of another byte order, or references to Python's objects. `format` is one
/// of the struct module or a typestr of the array interface; `bytes` are those of an element.
void check_elements(std::string_view format, std::size_t bytes);

/// The same for all elements of an exporter's records, by its Python types: what formats and the
/// array interface tell of records leaves out fields.
void check_exporter(const Py_buffer& buffer);
void check_record(py::handle object, const py::dict& interface);

/// Throws a Python BufferError for elements with gaps between their fields that are a view of
/// others', for example some fields of records: their exporter tells of all bytes.
void check_gaps(py::handle object);

/// Throws a Python BufferError where numpy.ma masks elements: calls would use the values beneath.
void check_mask(py::handle object);

/// Throws a Python TypeError for handles and a BufferError for memory of devices that Capstan does
/// not know: neither may be read.
void check_dlpack(py::handle object, const DLTensor& tensor);

/// Throws a Python BufferError for tensors of PyTorch's that are to be negated or conjugated when
/// they are read: no protocol says so.
void check_pending(py::handle tensor);

}  // namespace capstan::python
