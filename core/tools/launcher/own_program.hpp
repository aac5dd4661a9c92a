// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace capstan::launcher {

/// The file of this program; without /proc, the path by which it was started.
std::filesystem::path own_program();

}  // namespace capstan::launcher
