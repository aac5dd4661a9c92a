// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "capstan/export.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Elements of a program that no DataType is the same as. They travel as u8, and ranks compare what
/// they are as they compare types.
struct ForeignType {
  std::uint8_t code = 0;       ///< 0: none; 1: booleans; n + 1: n bytes each, longer ones all alike
  std::uint32_t kind = 0;      ///< a digest of the name, as sizes have several types; 0: no name
  const char* name = nullptr;  ///< for errors; exists until the process ends

  static constexpr std::size_t most_bytes = 126;
  static constexpr ForeignType boolean() { return {1}; }
  static constexpr ForeignType of_bytes(std::size_t bytes) {
    return {static_cast<std::uint8_t>((bytes < most_bytes ? bytes : most_bytes) + 1)};
  }
  /// The same on all ranks that call it by the same name, which has to stay where it is.
  static constexpr ForeignType named(std::size_t bytes, const char* name) {
    ForeignType type = of_bytes(bytes);
    type.kind = 2166136261;  // FNV-1a (Fowler, Noll and Vo)
    for (const char letter : std::string_view{name})
      type.kind = (type.kind ^ static_cast<unsigned char>(letter)) * 16777619;
    if (type.kind == 0) type.kind = 1;
    type.name = name;
    return type;
  }
  constexpr bool operator==(const ForeignType& other) const {
    return code == other.code && kind == other.kind;
  }
};

/// "u8 (booleans)", "u8 (elements of 2 bytes)", "u8 (elements of 8 bytes, datetime64[s])"; without
/// a foreign type as name_of(type).
std::string to_string(DataType type, ForeignType foreign);

}  // namespace CAPSTAN_EXPORT capstan
