// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "capstan/hosts.hpp"
#include "capstan/types.hpp"

namespace capstan::cli {

/// The most ranks of a world that is only thought of.
inline constexpr int most_ranks = 1024;

/// "12". Throws InvalidArgument that names the option.
int whole_number(const std::string& text, const char* option);

/// "64k". Throws InvalidArgument that names the option, also above 1024G.
Bytes parse_size(const std::string& text, const char* option);

/// "1-3,8" as 1, 2, 3, 8.
std::vector<int> parse_list(const std::string& text, const char* option);

/// "2x3" as two hosts of three ranks each, "0,0,1" as the host of each rank.
Hosts parse_hosts(const std::string& text);

}  // namespace capstan::cli
