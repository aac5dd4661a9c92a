// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/bootstrap/launchers/launch.hpp"
#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {

/// The bound of the wire between hosts. Hosts form a ring of bare sockets, with one connection for
/// each rank of the host that has the fewest. They carry the bytes that a host must send and
/// receive at least, both at once, out of buffers that stay in the cache. A small call is one bare
/// exchange. CAPSTAN_INTERFACE chooses the interface. Throws InvalidArgument if all ranks are on
/// one host.
std::unique_ptr<Library> wire_bound(const Launch& launch, Store& store);

}  // namespace capstan::perf
