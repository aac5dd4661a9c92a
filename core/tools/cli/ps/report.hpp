// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tools/cli/ps/look.hpp"

namespace capstan::cli {

/// The verdict, and a line for each rank.
std::string to_text(const SeenJob& job, int width);
nlohmann::json to_json(const SeenJob& job);

}  // namespace capstan::cli
