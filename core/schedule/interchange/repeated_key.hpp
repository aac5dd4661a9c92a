// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {

/// A key that stands twice in one object of a JSON text.
struct RepeatedKey {
  std::string name;
  std::size_t first, second;  ///< where, in bytes
};

/// The first one in a valid JSON text; none where all keys of each object differ. What two
/// spellings of one key are ("a" and "\u0061") counts as the same.
std::optional<RepeatedKey> repeated_key(std::string_view json);

}  // namespace capstan
