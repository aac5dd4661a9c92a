#pragma once

#include <functional>

#include "core/runtime/program.hpp"

namespace capstan {

/// How data and notice of them travel.
enum class Form : std::uint8_t {
  flags,   ///< data on the board, then a flag: for anything but the smallest messages
  packets  ///< each cache line carries its own sequence number: no separate flag to wait for
};

/// The schedule of any rank of the group; lowering asks for those that this rank hears from.
using ScheduleOf = std::function<const Schedule&(Rank)>;

/// Turns the schedule of `self` into a program.
///
/// Exports: each put becomes an area of the own board, with flags written once for all peers that
/// get the same bytes; when the bytes were just computed, the computation writes both places at
/// once. Imports: a put that lands in scratch is never copied there; whoever reads the landing
/// reads the peer's board instead. A put that lands in the output is copied there when its signal
/// is awaited. The area is safe to read until the peer reuses the board's slot, which is what the
/// verifier proves of the lowered programs.
Program lower(const ScheduleOf& schedule_of, Rank self, Form form);

/// The extent of the larger region of the board that a rank with this schedule needs.
Elements board_extent(const Schedule& schedule, Form form);

}  // namespace capstan
