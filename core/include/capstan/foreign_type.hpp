// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "capstan/export.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Elements of a program that no DataType is the same as. They travel as u8, and ranks compare what
/// they are as they compare types.
struct ForeignType {
  std::uint8_t code = 0;  ///< 0: none; 1: booleans; n + 1: n bytes each, longer ones all alike

  static constexpr std::size_t most_bytes = 126;
  static constexpr ForeignType boolean() { return {1}; }
  static constexpr ForeignType of_bytes(std::size_t bytes) {
    return {static_cast<std::uint8_t>((bytes < most_bytes ? bytes : most_bytes) + 1)};
  }
  bool operator==(const ForeignType&) const = default;
};

/// "u8 (booleans)", "u8 (elements of 2 bytes)"; without a foreign type as name_of(type).
std::string to_string(DataType type, ForeignType foreign);

}  // namespace CAPSTAN_EXPORT capstan
