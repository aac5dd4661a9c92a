#pragma once

#include <memory>

#include "core/bootstrap/launchers/launch.hpp"
#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {

/// What the wire between hosts allows: bare sockets from host to host in a ring, one for each rank
/// of the host that has the fewest, carry the bytes that a host must send and receive at least,
/// both at once and out of the cache. A small call is thus one bare exchange. The interface is the
/// one that CAPSTAN_INTERFACE chooses. Throws InvalidArgument if all ranks are on one host.
std::unique_ptr<Library> wire_bound(const Launch& launch, Store& store);

}  // namespace capstan::perf
