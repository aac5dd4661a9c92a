#pragma once

#include <optional>
#include <string>

#include "transports/compose/faulty/fault_plan.hpp"

namespace capstan::faulty {

/// What happens to one push on its way. It starts to show after `hold` calls of progress(); if
/// `first` is not zero, as many of its bytes show then, and the rest `pause` calls later: alone, or
/// together with the first ones once more when `resent`.
struct Delivery {
  std::uint64_t hold = 0;
  Bytes first{0};
  std::uint64_t pause = 0;
  bool resent = false;
};

/// What a plan means for the link on which `self` hears `peer`. Every answer depends on the plan,
/// the ranks and the arguments alone. Thread-safe.
class FaultDice {
 public:
  FaultDice(const FaultPlan& plan, Rank self, Rank peer);

  /// Of the push with this number, from 0 on, to this place of the segment.
  Delivery delivery_of(std::uint64_t push, Bytes offset, Bytes length) const;
  /// Whether the link is passed over when this push is next and others have news too.
  bool skipped(std::uint64_t push) const;
  /// Why the link is broken once so many pushes have been taken in, or nothing.
  std::optional<std::string> broken_after(std::uint64_t pushes) const;

 private:
  FaultPlan plan_;
  Rank self_, peer_;
};

/// What a plan means for the sleeps of `self`, of which `sleep` is the number: which part of the
/// time it may take passes before it ends by itself; 1 if all of it does.
double part_of_sleep(const FaultPlan& plan, Rank self, std::uint64_t sleep);

}  // namespace capstan::faulty
