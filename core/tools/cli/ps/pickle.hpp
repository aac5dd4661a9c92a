// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace capstan::cli {

/// The value as Python's module pickle stores it (protocol 2): objects as dictionaries, arrays as
/// lists. Throws InvalidArgument for a string of 4 GiB and more.
std::string to_pickle(const nlohmann::json& value);

}  // namespace capstan::cli
