// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace capstan {

/// "LINE:COLUMN" of the value that a JSON pointer ("/groups/0/ranks") names in a valid JSON text,
/// about: where the value ends. "1:1" if there is none.
std::string position_of(std::string_view text, const std::string& pointer);

}  // namespace capstan
