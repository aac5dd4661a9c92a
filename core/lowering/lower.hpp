#pragma once

#include <functional>

#include "capstan/collective.hpp"
#include "capstan/hosts.hpp"
#include "core/lowering/program.hpp"
#include "core/lowering/protocol.hpp"

namespace capstan {

/// The schedule of any rank of the group; lowering asks for those that this rank hears from.
using ScheduleOf = std::function<const Schedule&(Rank)>;

/// Turns the schedule of `self` into a program.
///
/// Exports: each put becomes an area of the rank's own staging buffer, with flags written once for
/// all peers that get the same bytes; when the bytes were just computed, the computation writes
/// both places at once. Imports: a put that lands in scratch is never copied there; whoever reads
/// the landing reads the peer's staging buffer instead. A put that lands in the output is copied
/// there when its signal is awaited. In the direct protocol, what a put takes from the input is not
/// written to the staging buffer but read in the input, in the open protocol also what it takes
/// from a part of the output that this rank computes no more; and whoever has been read waits at
/// the end until that is over, unless what its readers send it later tells as much. In the written
/// protocol, a put that lands in the output is written there, and the signal after it is all that
/// its receiver needs. The area is safe to read until the peer reuses the staging buffer's slot,
/// which is what the verifier proves of the lowered programs.
///
/// Between hosts a put is a push straight from where its source is. What is being pushed is not
/// overwritten before a flush, and at the end of a phase nothing but the caller's buffers is still
/// being pushed; those at the end of the call (see Executor). Forms that read buffers need all
/// ranks on one host.
Program lower(const ScheduleOf& schedule_of, Rank self, Protocol protocol, const Hosts& hosts);
/// Those of all ranks, for less than one by one.
std::vector<Program> lower_all(const ScheduleOf& schedule_of, const Hosts& hosts,
                               Protocol protocol);

}  // namespace capstan
