// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace capstan::python {

/// The handle of the stream that a program passes; null for None. Takes a number (cudaStream_t,
/// hipStream_t), an object with __cuda_stream__, a stream of PyTorch, CuPy, Numba or PyCUDA, or
/// "current": the one that the library of `array` uses now. Throws TypeError.
void* stream_of(pybind11::handle stream, pybind11::handle array);

}  // namespace capstan::python
