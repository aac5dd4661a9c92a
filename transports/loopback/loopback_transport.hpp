#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

/// Transports for `ranks` ranks that are threads of this process, entry r for rank r, each with a
/// segment of `segment` bytes, that do not share memory: no link is mapped, and peers see what was
/// pushed and woken for, no sooner than in their own progress(). For tests of what runs over
/// networks. They use the freedom that the contract gives, so that those who rely on more are
/// caught: nothing is sent before the wake, long ranges are read as late as allowed, and pushed()
/// becomes true in progress() alone.
///
/// `shared`, where not empty, holds a segment for each rank that outlives its transport and may
/// belong to other transports of that rank too. What was pushed and woken for is delivered even
/// when its sender has been destroyed since. Throws InvalidArgument and SystemError.
std::vector<std::unique_ptr<Transport>> make_loopback_transports(
    int ranks, Bytes segment, std::span<std::byte* const> shared = {});

}  // namespace capstan
