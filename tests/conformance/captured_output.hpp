#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "core/net/file_descriptor.hpp"

namespace capstan::conformance {

/// Captures the standard output of this process, where warnings go.
class CapturedOutput {
 public:
  CapturedOutput() : file_(::memfd_create("output", MFD_CLOEXEC)), before_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    ::dup2(file_.get(), STDOUT_FILENO);
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    std::fflush(stdout);
    ::dup2(before_.get(), STDOUT_FILENO);
  }
  std::string text() const {
    std::fflush(stdout);
    std::ifstream file{fmt::format("/proc/self/fd/{}", file_.get())};
    return (std::ostringstream{} << file.rdbuf()).str();
  }

 private:
  FileDescriptor file_;
  FileDescriptor before_;
};

}  // namespace capstan::conformance
