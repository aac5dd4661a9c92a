// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "bindings/mpi/arguments.hpp"

namespace capstan::mpi {

/// Why a call is MPI's own. Each is a fact that all ranks share.
enum class Reason : std::uint8_t {
  switched_off,    ///< by CAPSTAN_MPI
  one_rank,        ///< nobody to talk to
  between_groups,  ///< an intercommunicator
  several_worlds,  ///< a member was started by MPI_Comm_spawn, or connected
  no_group,        ///< Capstan could not form one
  not_formed,      ///< no blocking collective has come before this one
  operation,       ///< an operation that MPI alone has for the type
  arguments,       ///< MPI says what is wrong
  count
};

/// Counts calls, and tells of them when MPI ends.
class Report {
 public:
  using Clock = std::chrono::steady_clock;

  static void served(Kind kind, std::size_t bytes, Clock::duration time);
  static void passed(Kind kind, Reason reason, Clock::duration time);
  /// A group was formed, for a communicator or for persistent calls.
  static void formed();
  /// On the first rank.
  static void print(const char* library);
};

}  // namespace capstan::mpi
