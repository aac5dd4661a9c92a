// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "capstan/quantity.hpp"

namespace capstan {

/// The text of a file that a user names: a regular file or a pipe. Throws InvalidArgument for what
/// cannot be read, for a folder or a device, and for a text longer than `most`.
std::string text_of_file(const std::string& path, Bytes most = Bytes{std::uint64_t{4} << 30});

}  // namespace capstan
