// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

/// A command's standard output. The command is ended when it takes longer than 20 s. Throws
/// launcher::CannotRun.
std::string output_of(const std::vector<std::string>& command);

}  // namespace capstan::cli
