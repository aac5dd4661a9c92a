// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

/// The documents of several jobs, one after the other, as one document: of --json on standard
/// output around what the jobs print, of --json=FILE from the parts that they write. Without JSON
/// it parts their tables.
class JobDocuments {
 public:
  /// `json`: "-", a file, or empty; `arguments`: those of the command.
  JobDocuments(const std::string& json, std::vector<std::string> arguments);

  /// Before each job.
  void begin();
  /// The arguments for the job that begins.
  std::vector<std::string> arguments() const;
  /// After the last one. Throws SystemError.
  void end();

 private:
  bool has_file() const { return !json_.empty() && json_ != "-"; }
  std::string part(int number) const;

  const std::string json_;
  const std::vector<std::string> arguments_;
  int begun_ = 0;
};

}  // namespace capstan::cli
