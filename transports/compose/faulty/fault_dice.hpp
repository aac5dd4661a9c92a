// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "transports/compose/faulty/fault_plan.hpp"

namespace capstan::faulty {

/// The delivery of one push. It becomes visible after `hold` calls of progress(). If `first` is
/// not zero, only that many bytes do, and the rest `pause` calls later; a `resent` push then
/// becomes visible as a whole once more.
struct Delivery {
  std::uint64_t hold = 0;
  Bytes first{0};
  std::uint64_t pause = 0;
  bool resent = false;
};

/// Decides about faults on the link from `peer` to `self`. Every answer depends on the plan, the
/// ranks and the arguments alone. Thread-safe.
class FaultDice {
 public:
  FaultDice(const FaultPlan& plan, Rank self, Rank peer);

  /// Delivery of push number `push` (from 0 on) to this range of the segment.
  Delivery delivery_of(std::uint64_t push, Bytes offset, Bytes length) const;
  /// Whether one call of progress() skips the link when this push is next and other links have
  /// pushes, too.
  bool skipped(std::uint64_t push) const;
  /// Why the link is broken after this number of received pushes, or nothing.
  std::optional<std::string> broken_after(std::uint64_t pushes) const;

 private:
  FaultPlan plan_;
  Rank self_, peer_;
};

/// The part of its time limit after which sleep number `sleep` of `self` ends by itself: 0 at once,
/// 1 not before the limit.
double part_of_sleep(const FaultPlan& plan, Rank self, std::uint64_t sleep);

}  // namespace capstan::faulty
