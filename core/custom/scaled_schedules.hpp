#pragma once

#include <cstdint>
#include <vector>

#include "core/interchange/schedule_set.hpp"

namespace capstan {

/// The schedules of a file at any size: each unit of the file (see in_units) becomes one of
/// count/units elements, or of one more, as nth_block cuts.
///
/// A unit of scratch is as long as what is in it. So the steps are followed once, in an order in
/// which they may run, to learn which unit of a block each piece of data is of. Schedules have to
/// be proven before.
class ScaledSchedules : public ScheduleSource {
 public:
  explicit ScaledSchedules(const ScheduleSet& set);

  /// Throws InvalidArgument where there is no such schedule: for counts per rank, and for other
  /// roots of collectives whose blocks belong to ranks.
  Schedule schedule(const Group& group, const Shape& shape) const override;

 private:
  /// The unit of a block that each unit of a step is of.
  using UnitsOfStep = std::vector<std::uint32_t>;
  class Scale;

  void follow();
  int turn_to(int root) const;
  Schedule scaled(const Group& group, const Shape& shape, int turn) const;

  const ScheduleSet original_, units_;
  const std::uint64_t length_;  ///< units of a block
  ByRank<std::vector<UnitsOfStep>> of_step_;
};

}  // namespace capstan
