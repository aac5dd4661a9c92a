// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace capstan::report {

using Facts = std::vector<std::pair<std::string, std::string>>;

/// Where the figures of a page come from: machine, host, operating system, version, date, and the
/// command `capstan ARGUMENT...`, written as a shell reads it.
Facts origin(const std::vector<std::string>& arguments);

/// An argument as a shell reads it: in quotes where it needs them.
std::string quoted(const std::string& argument);

}  // namespace capstan::report
