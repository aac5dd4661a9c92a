// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace capstan {

/// The output of a command, and how it ended.
struct CommandResult {
  int status = -1;  ///< exit status, or 128 + signal
  std::string output;
};

/// Runs a command with standard output and error together, added to the environment what is given;
/// kills its whole process group and fails the test when it takes longer than a generous bound.
CommandResult run_command(const std::vector<std::string>& command,
                          const std::vector<std::pair<std::string, std::string>>& environment = {});

/// Processes that this test's commands started, with whatever they hold, and entries of /dev/shm
/// that are here now and do not go away in time: empty when nothing was left behind.
std::vector<std::string> leftovers(std::chrono::seconds patience = std::chrono::seconds{60});

/// How often a text contains another.
inline int occurrences(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace capstan
