// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

inline constexpr int most_rails = 8;

/// Makes rail number `rail` for ranks whose segments have `segment` bytes, on the given memory.
using MakeRail =
    std::function<std::unique_ptr<Transport>(int rail, Bytes segment, const Borrowed& memory)>;

/// Memory that a segment of this size needs, with the counters of pieces behind it.
Bytes rails_segment(Bytes segment);

/// Several transports between the same ranks ("rails") as one. Each rail has a network card, a port
/// or a connection of its own. Long ranges are cut into one piece per rail; short ranges take the
/// first rail. Short ranges that follow a long range wait until the peer has acknowledged all
/// pieces of it, so that they do not overtake it. Further long ranges do not wait, so that the
/// rails stay busy. Hence a long range may become visible before short ranges that were pushed
/// before it.
///
/// All ranks need the same number of rails. `shared_segment` has rails_segment(segment) bytes and
/// outlives the transport. Links are never mapped, even if those of the rails are. A peer counts as
/// departed when any rail to it breaks. The destructor waits while peers receive what was pushed.
///
/// Throws InvalidArgument for an impossible number of rails, and what `make` throws.
std::unique_ptr<Transport> make_multirail_transport(Rank self, int ranks, Bytes segment, int rails,
                                                    const MakeRail& make,
                                                    std::byte* shared_segment = nullptr);

}  // namespace capstan
