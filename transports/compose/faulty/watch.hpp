#pragma once

#include "core/net/file_descriptor.hpp"

namespace capstan::faults {

/// A descriptor that is readable while another one is, or while it was nudged. Thread-safe.
class Watch {
 public:
  /// `other` outlives it. Throws SystemError.
  explicit Watch(int other);

  int descriptor() const { return both_.get(); }
  void nudge();
  void calm();

 private:
  FileDescriptor nudged_, both_;
};

}  // namespace capstan::faults
