// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capstan/types.hpp"
#include "kernels/device/arguments.hpp"
#include "kernels/device/elements.hpp"
#include "kernels/device/executor.hpp"
#include "kernels/device/reduce.hpp"

/// The kernels by name. Host code finds them by name in the modules that the toolkits make, and
/// launches them with these arguments.
namespace capstan::kernels::device {

template <class T, ReduceOp op, class M>
CAPSTAN_DEVICE void reduce_kernel(const M& m, const ReduceArguments& a) {
  reduce<T, op>(m, grid_of(m),
                {.destinations = a.destinations,
                 .sources = a.sources,
                 .destination_count = a.destination_count,
                 .source_count = a.source_count,
                 .divisor = a.divisor,
                 .element_count = a.element_count});
}

template <class T, ReduceOp op, class M>
CAPSTAN_DEVICE void run_kernel(const M& m, const ProgramArguments& a) {
  Executor<T, op, M>{m, a}.run();
}

}  // namespace capstan::kernels::device

/// Calls DO(name of the type, type, operation) for each type and operation. Integers, floats and
/// complex numbers stand apart, as their source files do.
#define CAPSTAN_OPERATIONS_OF_NUMBERS(DO, NAME, TYPE) \
  DO(NAME, TYPE, sum)                                 \
  DO(NAME, TYPE, product)                             \
  DO(NAME, TYPE, min)                                 \
  DO(NAME, TYPE, max)                                 \
  DO(NAME, TYPE, average)                             \
  DO(NAME, TYPE, logical_and) DO(NAME, TYPE, logical_or) DO(NAME, TYPE, logical_xor)
#define CAPSTAN_OPERATIONS_OF_INTEGERS(DO, NAME, TYPE) \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, NAME, TYPE)        \
  DO(NAME, TYPE, bit_and) DO(NAME, TYPE, bit_or) DO(NAME, TYPE, bit_xor)
#define CAPSTAN_OPERATIONS_OF_COMPLEX(DO, NAME, TYPE) \
  DO(NAME, TYPE, sum) DO(NAME, TYPE, product) DO(NAME, TYPE, average)

#define CAPSTAN_DEVICE_INTEGERS(DO)                      \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, i8, std::int8_t)    \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, u8, std::uint8_t)   \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, i32, std::int32_t)  \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, u32, std::uint32_t) \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, i64, std::int64_t)  \
  CAPSTAN_OPERATIONS_OF_INTEGERS(DO, u64, std::uint64_t)
#define CAPSTAN_DEVICE_FLOATS(DO)                                 \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, f16, capstan::Float16)        \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, bf16, capstan::BFloat16)      \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, f32, float)                   \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, f64, double)                  \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, f8_e4m3, capstan::Float8E4M3) \
  CAPSTAN_OPERATIONS_OF_NUMBERS(DO, f8_e5m2, capstan::Float8E5M2) \
  CAPSTAN_OPERATIONS_OF_COMPLEX(DO, c64, device::Complex<float>)  \
  CAPSTAN_OPERATIONS_OF_COMPLEX(DO, c128, device::Complex<double>)
