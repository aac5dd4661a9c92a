#pragma once

#include "core/interchange/schedule_set.hpp"
#include "core/lowering/prove_algorithm.hpp"

namespace capstan {

/// Proves that the schedules of a set do what their collective promises, and so do the programs
/// that they are lowered to; and that they keep the guarantees that the set states. The size
/// hardly matters: see proof::Classes. Whether ranks add in the same order is told and not
/// required.
/// Throws proof::TooMuchWork where there is a budget.
AlgorithmProof prove_set(const ScheduleSet& set, proof::Budget* budget = nullptr);

}  // namespace capstan
