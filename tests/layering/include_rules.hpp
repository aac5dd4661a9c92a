// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace capstan::layering {

using Names = std::vector<std::string_view>;

/// The headers that files below `folder` may include besides the standard library and each other.
/// "transports/*" is one layer for each folder in transports, none of which knows the others.
struct Rule {
  std::string_view folder;
  Names layers;
  Names libraries;
  bool pure = false;  ///< results depend on arguments only: no clock, I/O, thread or system header
};

/// The longest folder that matches counts, the first of equals.
const std::vector<Rule>& rules();

/// Whether a library is one that rules name: "fmt", "hwloc".
bool is_known_library(std::string_view name);

/// Whether a pure layer must not use this system header.
bool is_impure(std::string_view header);

}  // namespace capstan::layering
