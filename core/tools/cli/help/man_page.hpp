// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace capstan::cli {

/// The manual page of a command, or of the program, as man reads it.
std::string man_page(const CLI::App& app);

}  // namespace capstan::cli
