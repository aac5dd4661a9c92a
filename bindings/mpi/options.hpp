// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bindings/mpi/arguments.hpp"

namespace capstan::mpi {

/// CAPSTAN_MPI: off, report, only:all_reduce,broadcast; several, separated by commas. The first
/// rank's counts for all.
struct Options {
  bool off = false;
  bool report = false;
  std::uint32_t served = ~0U;  ///< a bit for each Kind

  bool serves(Kind kind) const { return !off && (served >> static_cast<int>(kind) & 1) != 0; }

  /// A bad text serves nothing, and the complaint says why.
  static Options parse(const std::string& text, std::string& complaint);
};

}  // namespace capstan::mpi
