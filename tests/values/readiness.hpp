// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "capstan/communicator.hpp"
#include "capstan/owning_tensor.hpp"

namespace capstan::values {

/// `count` numbers that differ with the rank, the index and `salt`.
Tensor numbers(int rank, std::size_t count, int salt = 0);

/// Element by element, the sum of numbers() of all ranks.
Tensor sum_of_numbers(int ranks, std::size_t count, int salt = 0);

/// One of `parts` equal parts of the first dimension.
Tensor part_of(const Tensor& tensor, int part, int parts);

/// Runs collectives and messages on async values. On each rank their inputs become ready in an
/// order that depends on the seed and the rank. Says which result is wrong; empty if all are right.
std::string fault_under_random_readiness(Communicator& communicator, std::uint64_t seed);

}  // namespace capstan::values
