#pragma once

#include <functional>
#include <memory>

#include "transports/common/borrowed.hpp"
#include "transports/transport.hpp"

namespace capstan {

inline constexpr int most_rails = 8;

/// Makes rail number `rail` for ranks whose segments have `segment` bytes, over that memory.
using MakeRail =
    std::function<std::unique_ptr<Transport>(int rail, Bytes segment, const Borrowed& memory)>;

/// How much memory a segment takes that goes over rails.
Bytes rails_segment(Bytes segment);

/// Several transports between the same ranks as one: each over a network card, a port or a
/// connection of its own. Long ranges are cut into a piece for each rail. What is pushed after them
/// waits until the peer has told that all pieces have come; only other long ranges do not, so that
/// the rails stay busy: a long range may become visible before short ones that were pushed before
/// it, never after those that were pushed after it. Short ranges take the first rail.
///
/// All ranks have as many rails. `shared_segment` has rails_segment(segment) bytes and outlives the
/// transport. Links are not mapped, whatever those of the rails are. A rail that breaks is the loss
/// of that peer. The destructor waits for peers to take what was pushed, as long as they do.
///
/// Throws InvalidArgument for an impossible number of rails, and what `make` throws.
std::unique_ptr<Transport> make_multirail_transport(Rank self, int ranks, Bytes segment, int rails,
                                                    const MakeRail& make,
                                                    std::byte* shared_segment = nullptr);

}  // namespace capstan
