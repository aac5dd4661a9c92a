// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "capstan/by_rank.hpp"
#include "capstan/collective.hpp"
#include "capstan/hosts.hpp"
#include "core/schedule/lowering/program.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {

/// Returns the schedule of a rank of the group. Lowering one rank asks for the schedules of the
/// ranks that it receives from.
using ScheduleOf = std::function<const Schedule&(Rank)>;

/// Turns the schedule of `self` into a program.
///
/// Sending: each put becomes an area of the rank's own staging buffer. Peers that get the same
/// bytes share the area. If an operation has just computed the bytes, this operation writes both
/// the buffer and the area.
///
/// Receiving: a put that lands in scratch is not copied there. Whatever reads the landing reads the
/// peer's staging buffer instead. A put that lands in the output is copied there when its signal is
/// awaited. The verifier proves of the lowered programs that no peer reuses the area too early.
///
/// Protocols that avoid copies:
/// - `read_input`: the receiver reads a put from an input in the sender's input.
/// - `read_buffers`: the receiver also reads a put from the output in the sender's output, if the
///   sender does not change these bytes later in the call.
/// - `write_output`: the sender writes a put that lands in the output to the receiver's output.
/// An owner whose buffers were read waits at the end for a signal of each reader, unless a later
/// signal of that reader implies it. These protocols need all ranks on one host.
///
/// Between hosts: a put is a push from the buffer that holds its source. A flush precedes every
/// operation that would overwrite bytes being pushed. At the end of a phase, pushes from scratch
/// and staging are flushed. The executor flushes pushes from the caller's buffers at the end of the
/// call.
Program lower(const ScheduleOf& schedule_of, Rank self, Protocol protocol, const Hosts& hosts);
/// Hands the programs of ranks 0 .. ranks-1 to `visit`, one after the other. Cheaper than lower()
/// for each, as facts about schedules are shared.
void lower_each(const ScheduleOf& schedule_of, const Hosts& hosts, Protocol protocol, int ranks,
                const std::function<void(Program)>& visit);
/// The programs of all ranks. Cheaper than lower() for each, as facts about schedules are shared.
ByRank<Program> lower_all(const ScheduleOf& schedule_of, const Hosts& hosts, Protocol protocol);

}  // namespace capstan
