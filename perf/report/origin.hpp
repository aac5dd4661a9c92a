// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::report {

using Facts = std::vector<std::pair<std::string, std::string>>;

/// Where figures come from: machine, host, operating system, version, commit, date, load average,
/// and the command `capstan ARGUMENT...`, written as a shell reads it. `commit`: of the program;
/// empty where it is unknown.
Facts origin(const std::vector<std::string>& arguments, std::string_view commit);

/// The command of these arguments as a shell reads it.
std::string command_text(const std::vector<std::string>& arguments);

/// An object with a member for each fact, in small letters.
nlohmann::json to_json(const Facts& facts);

/// An argument as a shell reads it: in quotes where it needs them.
std::string quoted(const std::string& argument);

}  // namespace capstan::report
