#pragma once

#include <cstdint>
#include <string>

#include "core/ir/types.hpp"

namespace capstan {

/// What the caller asked for: what must agree between ranks.
struct Call {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  Elements count{};

  bool operator==(const Call&) const = default;

  /// Everything but the count, packed into 32 bits; unpack() is the inverse.
  std::uint64_t signature() const;
  static Call unpack(std::uint64_t signature, Elements count);
};

/// "all_reduce(1000 x f32, sum)".
std::string to_string(const Call& call);

}  // namespace capstan
