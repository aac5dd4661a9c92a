// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// A variable of the environment that is read and that is no member of Settings.
struct OtherVariable {
  std::string_view name, summary;
};
std::span<const OtherVariable> other_variables();

/// A variable whose name begins with CAPSTAN_ and that nothing reads.
struct UnknownVariable {
  std::string name;
  std::string nearest;  ///< of those that are read; empty: none is near
};
std::vector<UnknownVariable> unknown_variables();

/// Logs a warning of each, once in a process: a misspelt setting has no effect.
void warn_of_unknown_variables();

}  // namespace capstan
