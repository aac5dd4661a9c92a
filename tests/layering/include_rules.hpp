// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/layering/repository.hpp"

namespace capstan::layering {

using Names = std::vector<std::string>;

/// The headers that files below `folder` may include besides the standard library and each other.
/// "transports/*" is one layer for each folder in transports, none of which knows the others.
struct Rule {
  std::string folder;
  Names layers;
  Names libraries;
  bool pure = false;  ///< results depend on arguments only: no clock, I/O, thread or system header
};

/// Reads the rules of files named includes.rules, each of which speaks of its own folder and those
/// below. A line, continued by a backslash at its end, is one of:
///
///   FOLDER [pure]: FOLDER ... | LIBRARY ...   files below the first folder, which is named from
///   the
///                                             file's own (`.`, `net`), may include these others
///   set NAME = FOLDER ...                     @NAME stands for these, in all files
///   each @NAME: FOLDER ...                    the same rule for each of the set
///   # ...                                     a comment
///
/// A header is named like a folder, without its suffix. Throws std::invalid_argument that names the
/// file and the line.
std::vector<Rule> parse_rules(const std::vector<Source>& files);

/// The rules of the repository. The longest folder that matches counts, the first of equals.
const std::vector<Rule>& rules();

/// Whether a library is one that rules name: "fmt", "hwloc".
bool is_known_library(std::string_view name);

/// Whether a pure layer must not use this system header.
bool is_impure(std::string_view header);

}  // namespace capstan::layering
