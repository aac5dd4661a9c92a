// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/request.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

/// No process addresses more memory. A buffer that is longer is a mistake.
inline constexpr Bytes addressable{std::uint64_t{1} << 48};

/// A request that is valid on this rank: buffers have the lengths that the collective needs and are
/// disjoint or properly in place, the root exists, the operation is defined for the type.
struct CheckedCall {
  Call call;
  const void* input;
  void* output;
  Bytes input_bytes, output_bytes;
};

/// Why this collective cannot combine elements of this type so, and what can be done; empty: it can.
std::string why_undefined(Collective collective, DataType type, ReduceOp op);

/// Throws InvalidArgument, which names the rank, the call, the mistake and the remedy.
/// The counts of an all_to_all_v are those of this rank; the call's have to be completed.
CheckedCall check(const Request& request, int rank, int ranks);

}  // namespace capstan
