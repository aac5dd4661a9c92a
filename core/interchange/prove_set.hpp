#pragma once

#include "core/interchange/schedule_set.hpp"
#include "core/lowering/prove_algorithm.hpp"

namespace capstan {

/// Proves that the schedules of a set do what their collective promises, and so do the programs
/// that they are lowered to; and that they keep the guarantees that the set states. Elements that
/// always stay together are proven as one, so that the size hardly matters; findings about more
/// than 4096 elements count in these units.
AlgorithmProof prove_set(const ScheduleSet& set);

}  // namespace capstan
