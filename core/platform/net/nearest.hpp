// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// The only name that begins with the word, else the first of those that differ in the fewest
/// letters; empty if all differ in too many.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

}  // namespace capstan
