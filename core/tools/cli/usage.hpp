// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace capstan::cli {

/// The line for a command line that cannot be understood. A word that nothing knows comes first, as
/// what else is wrong often follows from it, and with it the name that it is nearest to.
std::string usage_error(const CLI::App* app, const CLI::Error& error);

}  // namespace capstan::cli
