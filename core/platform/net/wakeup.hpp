// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/system_call.hpp"

namespace capstan {

/// A descriptor that any thread can make readable (eventfd), to end the wait of another thread.
class Wakeup {
 public:
  /// Throws SystemError.
  Wakeup() : event_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}

  int descriptor() const { return event_.get(); }
  /// Makes the descriptor readable, until clear().
  void ring() { ::eventfd_write(event_.get(), 1); }
  void clear() {
    eventfd_t rings = 0;
    ::eventfd_read(event_.get(), &rings);
  }

 private:
  FileDescriptor event_;
};

}  // namespace capstan
