// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>

namespace capstan::cli {

/// A time in seconds, as a whole number or with a point, and nothing behind it.
CLI::Validator positive_seconds();
CLI::Validator seconds_to_measure();
CLI::Validator seconds_from_zero();

/// Throws InvalidArgument if one of these options was given: "--root: a barrier has no root".
void refuse_options(const CLI::App& command, std::initializer_list<const char*> names,
                    const std::string& why);

}  // namespace capstan::cli
