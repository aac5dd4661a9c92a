// SPDX-License-Identifier: Apache-2.0
#include "capstan/foreign_type.hpp"

namespace capstan {

std::string to_string(DataType type, ForeignType foreign) {
  const std::string name{name_of(type)};
  if (foreign == ForeignType{}) return name;
  if (foreign == ForeignType::boolean()) return name + " (booleans)";
  const std::size_t bytes = foreign.code - std::size_t{1};
  return name + " (elements of " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") +
         (bytes < ForeignType::most_bytes ? ")" : " or more)");
}

}  // namespace capstan
