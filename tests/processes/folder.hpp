// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {

/// A folder in which commands run.
struct Folder : test::TemporaryFolder {
  /// Runs a line of a shell there, with `capstan` on the path.
  CommandResult run(const std::string& line) const {
    const auto programs = std::filesystem::path{CAPSTAN_PROGRAM}.parent_path().string();
    return run_command(
        {"sh", "-c", "cd " + path().string() + "; PATH=" + programs + ":$PATH; " + line});
  }
};

struct Session {
  std::string command, output;
};

/// The commands behind "$ " in the console blocks of a document, with what they print.
inline std::vector<Session> sessions_of(const std::string& document) {
  std::vector<Session> sessions;
  std::ifstream file{document};
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```"))
      inside = line == "```console";
    else if (inside && line.starts_with("$ "))
      sessions.push_back({line.substr(2), ""});
    else if (inside && !sessions.empty())
      sessions.back().output += line + "\n";
  }
  return sessions;
}

/// Runs the sessions of a document beside the files that it speaks of, those of docs/clusters.
inline void expect_true_sessions(const std::string& document, std::size_t at_least) {
  const Folder folder;
  std::filesystem::copy(DOCUMENTS "/clusters", folder / "clusters");
  const auto sessions = sessions_of(DOCUMENTS "/" + document);
  EXPECT_GE(sessions.size(), at_least);
  for (const auto& [command, output] : sessions)
    EXPECT_EQ(folder.run(command).output, output) << command;
}

}  // namespace capstan
