#pragma once

#include <memory>

#include "core/bootstrap/launchers/launch.hpp"
#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {

/// What a machine allows its ranks: a bare exchange of flags between the same cores, and each
/// rank's share of the bytes that must cross memory (every input read once, every output written
/// once), copied on all cores at once. All ranks are on one host, 64 at most (InvalidArgument).
std::unique_ptr<Library> memory_bound(const Launch& launch, Store& store);

}  // namespace capstan::perf
