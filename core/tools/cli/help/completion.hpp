// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace capstan::cli {

enum class Shell : std::uint8_t { bash, zsh, fish };

/// A script by which the shell completes the program's commands and options.
std::string completion_for(const CLI::App& program, Shell shell);

}  // namespace capstan::cli
