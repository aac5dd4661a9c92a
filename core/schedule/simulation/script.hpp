// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/lowering/program.hpp"
#include "core/schedule/simulation/cluster.hpp"

namespace capstan {

/// The actions that take a rank time.
///
///   work    computes and copies for `amount` nanoseconds
///   read    reads `amount` bytes of the memory of a peer on its host, or writes them there
///   send    sends a message of `amount` bytes
///   wait    until the peer's next message
///   drain   until what was sent to the peer has left
enum class Action : std::uint8_t { work, read, send, wait, drain };

/// An operation of a lowered program, without the places of its data: 16 bytes, since a simulation
/// holds those of all ranks.
struct ScriptStep {
  Action action : 8;
  std::uint32_t step : 24;  ///< of the schedule
  Rank peer{};
  double amount = 0;
};

/// The steps of one rank in one block.
struct Script {
  std::vector<ScriptStep> steps;
  std::vector<std::uint32_t> phase_end;
};

/// `in_place`: copies of the input to the output change nothing.
Script script_of(const Program& program, const Schedule& schedule, const Cluster& cluster,
                 Bytes element, bool in_place);

/// A time that the rank `self` with this script cannot end before: its own work, messages and
/// reads, as if it never waited.
double busy_time(const Script& script, const Cluster& cluster, Rank self);

}  // namespace capstan
