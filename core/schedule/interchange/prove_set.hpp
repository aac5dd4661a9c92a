// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/schedule/interchange/schedule_set.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"

namespace capstan {

/// The schedules of a set, for its own size. The set is kept by reference.
class SchedulesOfSet : public ScheduleSource {
 public:
  explicit SchedulesOfSet(const ScheduleSet& set) : set_(set) {}

  /// Throws InvalidArgument for another size.
  Schedule schedule(const Group& group, const Shape& shape) const override;

 private:
  const ScheduleSet& set_;
};

/// With the guarantees that the set states. Both are kept by reference.
Algorithm algorithm_of(const ScheduleSet& set, const SchedulesOfSet& source);

/// Proves that the schedules of a set do what their collective promises, and so do the programs
/// that they are lowered to; and that they keep the guarantees that the set states. The size
/// hardly matters: see proof::Classes. Whether ranks add in the same order is told and not
/// required.
/// Throws proof::TooMuchWork where there is a budget.
AlgorithmProof prove_set(const ScheduleSet& set, proof::Budget* budget = nullptr);

}  // namespace capstan
