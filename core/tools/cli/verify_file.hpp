// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan::cli {

/// Whether there is a file of this name, which is no collective's.
bool is_schedule_file(const std::string& word);

/// Proves the schedules of a file, and prints the result. Returns the exit status.
int verify_file(const std::string& path, const std::string& json);

}  // namespace capstan::cli
