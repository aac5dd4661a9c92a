// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/interchange/schedule_set.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {

/// The schedules of a file at any size. Each unit of the file (see in_units) becomes one of
/// count/units elements, or of one more, as nth_block cuts; units that always stay together are one
/// class.
///
/// A class of scratch is as long as the longest that may be in it. So the steps are followed once,
/// in an order in which they may run, to learn which class of a block each piece of data is of.
/// Schedules have to be proven before.
class ScaledSchedules : public ScheduleSource {
 public:
  /// Throws proof::TooMuchWork.
  ScaledSchedules(const ScheduleSet& set, proof::Budget& budget);

  /// Throws InvalidArgument where there is no such schedule: for counts per rank, and for other
  /// roots of collectives whose blocks belong to ranks.
  Schedule schedule(const Group& group, const Shape& shape) const override;

 private:
  /// The class of a block that each piece of a step is of.
  using ClassesOfStep = std::vector<std::size_t>;
  class Scale;

  void follow(proof::Budget& budget);
  std::uint64_t length_at(const Span& span) const;
  int turn_to(int root) const;
  Schedule scaled(const Group& group, const Shape& shape, int turn) const;
  std::vector<std::vector<Span>> pieces_of(std::vector<Span> operands, const ClassesOfStep& of_step,
                                           const Scale& scale) const;

  const ScheduleSet original_;
  const proof::Cuts cuts_;
  const std::uint64_t length_, unit_;  ///< elements of a block of the file, and of its units
  ByRank<std::vector<ClassesOfStep>> of_step_;
};

}  // namespace capstan
