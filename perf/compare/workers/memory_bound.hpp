// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/bootstrap/launchers/launch.hpp"
#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {

/// The bound of a machine: a bare exchange of flags between the same cores, then a copy of each
/// rank's share of the bytes that must cross memory, on all cores at once. Every input is read once
/// and every output written once. All ranks are on one host. Throws InvalidArgument for more
/// than 64.
std::unique_ptr<Library> memory_bound(const Launch& launch, Store& store);

}  // namespace capstan::perf
