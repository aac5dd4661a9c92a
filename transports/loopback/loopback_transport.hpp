// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

/// A simulated network between `ranks` threads of this process: entry r is the transport of rank r,
/// each with a segment of `segment` bytes. No link is mapped. For tests of what runs over networks.
///
/// The transports use all the freedom of the contract, which catches callers that rely on more:
/// nothing is sent before the wake, nothing becomes visible before the receiver's progress(), long
/// ranges are read as late as allowed, and pushed() becomes true in progress() alone.
///
/// `shared`, if not empty, holds for each rank a segment that outlives its transport and may belong
/// to other transports of that rank, too. A push that was followed by a wake is delivered even if
/// its sender has been destroyed since. Throws InvalidArgument and SystemError.
std::vector<std::unique_ptr<Transport>> make_loopback_transports(
    int ranks, Bytes segment, std::span<std::byte* const> shared = {});

}  // namespace capstan
