// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan {

/// "LINE:COLUMN" of a byte of a text, from 1. A byte behind the end means the end.
std::string line_and_column(std::string_view text, std::size_t byte);

}  // namespace capstan
