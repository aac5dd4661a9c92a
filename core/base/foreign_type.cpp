// SPDX-License-Identifier: Apache-2.0
#include "capstan/foreign_type.hpp"

#include <fmt/format.h>

namespace capstan {

std::string to_string(DataType type, ForeignType foreign) {
  const std::string name{name_of(type)};
  if (foreign == ForeignType{}) return name;
  if (foreign == ForeignType::boolean()) return name + " (booleans)";
  const std::size_t bytes = foreign.code - std::size_t{1};
  const auto kind = [&] {
    if (foreign.kind == 0) return std::string{};
    return foreign.name ? fmt::format(", {}", foreign.name)
                        : fmt::format(", a type #{:08x}", foreign.kind);
  };
  return fmt::format("{} (elements of {} byte{}{}{})", name, bytes, bytes == 1 ? "" : "s",
                     bytes < ForeignType::most_bytes ? "" : " or more", kind());
}

}  // namespace capstan
