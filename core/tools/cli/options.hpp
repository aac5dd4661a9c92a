// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace capstan::cli {

/// A time in seconds, as a whole number or with a point, and nothing behind it.
CLI::Validator positive_seconds();
CLI::Validator seconds_to_measure();
CLI::Validator seconds_from_zero();
/// So long one waits for something, also not at all.
CLI::Validator seconds_to_wait();

/// Adds --json: JSON is printed instead of text, and `file` is "-" then; --json=FILE writes it to a
/// file beside the text.
void add_json_option(CLI::App& command, std::string& file);
/// Whether --json leaves room for text on standard output.
inline bool prints_text(const std::string& json) {
  return json != "-";
}
/// Writes a document where --json says; nothing without it. Throws SystemError.
void write_json(const std::string& json, const nlohmann::json& document);

/// Throws InvalidArgument if one of these options was given: "--root: a barrier has no root".
void refuse_options(const CLI::App& command, std::initializer_list<const char*> names,
                    const std::string& why);

}  // namespace capstan::cli
