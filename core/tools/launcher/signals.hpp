// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::launcher {

/// While it lives, blocks the signals that a job's loop reads from a descriptor instead, and
/// ignores SIGPIPE: that nobody reads a message decides nothing about the ranks.
class SignalSource {
 public:
  /// Throws SystemError when the system gives no such descriptor.
  SignalSource();
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;

  /// Readable when a signal has come.
  int fd() const { return fd_.get(); }
  /// The next signal; 0 if none has come.
  int next() const;

 private:
  sigset_t signals_{}, previous_{};
  struct sigaction previous_pipe_{};
  FileDescriptor fd_;
};

}  // namespace capstan::launcher
