// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::launcher {

/// A process that outlives a killed launcher for a moment. It then kills the process groups of the
/// ranks, so that no process that a rank has started is orphaned. Ends with this object.
class OrphanGuard {
 public:
  /// Forks: before the calling process has other threads. Throws SystemError.
  OrphanGuard();
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;

  /// A pipe into which each rank writes the number of its process group before it does anything
  /// else.
  int announce() const { return pipe_.get(); }
  void forget(pid_t group);

 private:
  FileDescriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace capstan::launcher
