// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>

#include "capstan/communicator.hpp"

namespace capstan {

/// The rank that hangs, of three ranks or more: of seed 0 rank 1.
inline int guilty_of(unsigned seed, int ranks) {
  return seed == 0 ? 1 : static_cast<int>(std::mt19937{seed}() % static_cast<unsigned>(ranks));
}

/// Makes some calls, and then none that can end: because of that rank, in the way that is named.
/// Throws std::invalid_argument for another name. Where $REPORTS names a file, each rank writes
/// its report to $REPORTS.RANK as soon as that file is there.
void hang(Communicator& world, const std::string& how, unsigned seed);

}  // namespace capstan
