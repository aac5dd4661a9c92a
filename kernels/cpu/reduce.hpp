// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "capstan/types.hpp"

/// The element-wise kernels of the CPU. Each exists once per instruction-set target (AVX-512, AVX2,
/// SSE4.2, plain scalar; NEON on Arm) and the best one that this machine runs is chosen once.
///
/// All targets give bitwise the same result:
///  - sources are combined left to right, and no multiply-add is contracted;
///  - integers wrap around; an integer average truncates towards zero;
///  - f16, bf16 and the 8-bit floats are combined in f32 and rounded once, to nearest even, at the
///    end; f8_e4m3 has no infinity: what is too large becomes a NaN that keeps its sign;
///  - complex products follow the plain formula, part by part;
///  - a NaN among the sources makes the result NaN, for min and max too, and a computed NaN is
///    the type's quiet NaN with sign and payload clear; for logical operations NaN is true;
///  - min and max order -0 before +0, so that they do not depend on the order of the sources.
/// The kernels use the caller's floating-point environment (the tests use the default one).
///
/// All functions are safe to call from several threads at once, and none throws unless it says so.
namespace capstan::kernels {

/// Reads each of the `sources` once and writes the combined elements:
/// destination = s0 op s1 op ... in that order.
struct Reduction {
  /// May be identical to one or more of the sources (same address), never partially overlapping.
  void* destination;
  /// nullptr, or a second place that receives the same result; overlaps nothing else.
  void* second_destination = nullptr;
  /// `source_count` pointers; like the destinations they need the element's alignment at most.
  const void* const* sources;
  /// At least 1. One source is copied bit for bit (or, for an average, divided).
  std::size_t source_count;
  std::size_t element_count;
  /// More than 1 only for average: the result is divided by it once, at the end.
  std::uint32_t divisor = 1;
  /// Writes `destination` with non-temporal stores and ends with the fence that makes them visible
  /// before any later store. `second_destination` is always written with ordinary stores.
  bool stream_destination = false;
  /// Whether a source is in main memory. Sources are fetched ahead then, by all but the kernels of
  /// 8-bit floats, of complex products and of the program's own operations.
  bool fetch_ahead = false;
  /// Elements behind the sources that the caller reads next; they are fetched ahead, too.
  std::size_t following = 0;
  /// The UserReduction of user_kernel(). Other kernels ignore it.
  const void* context = nullptr;
  /// `further_count` more places that receive the same result, written as `destination` is; each
  /// may be identical to a source.
  void* const* further = nullptr;
  std::size_t further_count = 0;
};

/// An operation that the user has defined: accumulator[i] = accumulator[i] ⊕ next[i].
struct UserReduction {
  void (*accumulate)(const void* state, void* accumulator, const void* next, std::size_t count);
  const void* state;
  std::size_t element_bytes;  ///< 1 to 4096
};

using ReduceKernel = void (*)(const Reduction&);
using CopyKernel = void (*)(void* destination, const void* source, std::size_t bytes, bool stream);

/// The kernel for a type and an operation on this CPU. The kernel of ReduceOp::average sums, then
/// divides by `divisor`. Costs a table look-up: get the kernel once per plan. Throws
/// InvalidArgument unless supports(type, op).
ReduceKernel reduce_kernel(DataType type, ReduceOp op);

/// The kernel of operations that the user has defined; see Reduction::context.
ReduceKernel user_kernel();

/// destination[i] = source[i] · factor, rounded once to the type; integers are multiplied by the
/// factor rounded towards zero (which fits 64 bits), modulo 2^bits. The two may be identical. A NaN
/// keeps its sign and payload.
using ScaleKernel = void (*)(void* destination, const void* source, std::size_t count,
                             double factor);
ScaleKernel scale_kernel(DataType type);

/// Copies `bytes` bytes between places that do not overlap. Streams (non-temporal stores) when
/// asked and the CPU can, and then ends with the fence that makes the bytes visible before any
/// later store.
void copy(void* destination, const void* source, std::size_t bytes, bool stream);

/// Names of the instruction-set targets that were compiled and run here, best first: some of
/// "AVX-512", "AVX2", "SSE4.2", "NEON", and "scalar" for the plain C++ version.
std::span<const std::string_view> available_targets();

/// The target that reduce_kernel() and copy() use: the first available one.
std::string_view active_target();

/// The kernels of one available target, for tests and benchmarks. Throw InvalidArgument if it is
/// not available.
ReduceKernel reduce_kernel_for(std::string_view target, DataType type, ReduceOp op);
CopyKernel copy_kernel_for(std::string_view target);

}  // namespace capstan::kernels
