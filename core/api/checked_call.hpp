#pragma once

#include <string>

#include "capstan/request.hpp"
#include "core/lowering/call.hpp"

namespace capstan {

/// What was asked for, found to make sense on this rank: buffers as long as the collective wants
/// them, disjoint or properly in place, a root that exists, a type that the operation knows.
struct CheckedCall {
  Call call;
  const void* input;
  void* output;
  Bytes input_bytes, output_bytes;
};

/// Throws InvalidArgument, which names the rank, the call, what is wrong and what would be right.
/// The counts of an all_to_all_v are those of this rank; the call's have to be completed.
CheckedCall check(const Request& request, int rank, int ranks);

}  // namespace capstan
