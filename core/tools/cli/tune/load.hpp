// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

namespace capstan::cli {

/// A shell command that runs beside a sweep, and ends with this object, with all its children. An
/// empty one is none.
class Load {
 public:
  explicit Load(const std::string& command);
  ~Load();
  Load(const Load&) = delete;

 private:
  pid_t group_ = 0;
};

}  // namespace capstan::cli
