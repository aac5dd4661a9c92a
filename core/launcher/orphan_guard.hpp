#pragma once

#include <sys/types.h>

#include "core/net/file_descriptor.hpp"

namespace capstan::launcher {

/// A process of its own that outlives a killed launcher for a moment: it kills the process groups
/// of the ranks, so that what they have started does not stay behind either. Ends with this object.
class OrphanGuard {
 public:
  /// Forks: before the calling process has other threads. Throws SystemError.
  OrphanGuard();
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;

  /// Where each rank writes the number of its group, itself and before it can do anything else.
  int announce() const { return pipe_.get(); }
  void forget(pid_t group);

 private:
  FileDescriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace capstan::launcher
