// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "capstan/types.hpp"
#include "core/schedule/interchange/schedule_set.hpp"

namespace capstan {

// Schedules as text for other programs and for people. docs/schedule-files.md describes each.

/// The version of the JSON format that is written. Older ones can be read.
inline constexpr int schedule_file_version = 1;

/// A schedule file: one step a line.
std::string to_json(const ScheduleSet& set);

/// Reads a schedule file. Throws InvalidArgument: "FILE:LINE:COLUMN: ..." where the text is no
/// JSON, and "FILE: schedules[2].steps[7].peer: ..." where something else is wrong with it. `file`
/// is the name for messages. What is read has not been proven.
ScheduleSet schedule_set_from_json(std::string_view text, std::string_view file);

/// Times of computation, for simulators: reductions and copies.
struct ComputeCost {
  double nanoseconds_per_byte = 0.1;  ///< that is read
};

/// GOAL, the language of LogGOPSim and ATLAHS. A signal becomes a send of all that was put since
/// the one before, or of one byte; a wait becomes the receive of it.
std::string to_goal(const ScheduleSet& set, Bytes element, const ComputeCost& cost);

/// A graph for Graphviz: a cluster for each rank, a node for each step, dashed edges for signals.
std::string to_dot(const ScheduleSet& set);

/// A space-time diagram: a row for each rank, time from left to right, lines for messages.
std::string to_svg(const ScheduleSet& set);

/// The steps of all ranks, as `capstan verify --show` prints those of one.
std::string to_text(const ScheduleSet& set);

/// "all_reduce by ring on 4 ranks, 16 elements".
std::string title_of(const ScheduleSet& set);

}  // namespace capstan
