// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "topology/machine.hpp"

namespace capstan::launcher {

/// Throws the SystemError of a call that has failed, with the limit behind its error.
[[noreturn]] void refuse_start(std::string_view what, int error);

/// Both ends close when this process becomes another program.
struct Pipe {
  FileDescriptor read, write;
};
/// Throws SystemError.
Pipe make_pipe();

/// The program of one rank, and how to start it.
struct ChildOptions {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to this process's own
  CpuSet cpus;                                                   ///< empty: not bound
  int input = -1;     ///< becomes the child's standard input; -1: the child reads nothing
  int announce = -1;  ///< where the child writes its process number before it becomes the program
};

/// A started process, with a process group of its own. It dies with this process.
struct Child {
  pid_t pid = -1;
  /// Readable when the process has ended; invalid where the system gives none (Linux before 5.3,
  /// seccomp).
  FileDescriptor pidfd;
  FileDescriptor output, errors;  ///< its standard output and standard error
};

/// The program cannot be executed.
class CannotRun : public InvalidArgument {
 public:
  CannotRun(int status, const std::string& message) : InvalidArgument(message), status_(status) {}
  /// The exit status of a shell: 127 when there is no such program, 126 when it may not be run.
  int status() const { return status_; }

 private:
  int status_;
};

/// Whether the process has ended. Never waits.
bool has_ended(const Child& child);

/// When has_ended() is to be asked again: never where the pidfd tells.
Deadline next_look_at(const Child& child);

/// Throws CannotRun when the program cannot be executed, SystemError when the system refuses
/// to start anything.
Child start_child(const ChildOptions& options);

}  // namespace capstan::launcher
