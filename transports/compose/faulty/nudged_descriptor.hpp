// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/platform/net/poller.hpp"
#include "core/platform/net/wakeup.hpp"

namespace capstan::faulty {

/// A descriptor that is readable while another one is, or after nudge() until reset(). Thread-safe.
class NudgedDescriptor {
 public:
  /// `other` outlives it. Throws SystemError.
  explicit NudgedDescriptor(int other);

  int descriptor() const { return both_.descriptor(); }
  void nudge() { nudged_.ring(); }
  void reset() { nudged_.clear(); }

 private:
  Wakeup nudged_;
  Poller both_;
};

}  // namespace capstan::faulty
