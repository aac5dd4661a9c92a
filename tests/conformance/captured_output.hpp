// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::conformance {

/// Captures the standard error of this process, where warnings go.
class CapturedOutput {
 public:
  CapturedOutput() : file_(::memfd_create("output", MFD_CLOEXEC)), before_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    ::dup2(file_.get(), STDERR_FILENO);
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    std::fflush(stderr);
    ::dup2(before_.get(), STDERR_FILENO);
  }
  std::string text() const {
    std::fflush(stderr);
    std::ifstream file{fmt::format("/proc/self/fd/{}", file_.get())};
    return (std::ostringstream{} << file.rdbuf()).str();
  }

 private:
  FileDescriptor file_;
  FileDescriptor before_;
};

}  // namespace capstan::conformance
