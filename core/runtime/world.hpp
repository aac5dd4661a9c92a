#pragma once

#include <memory>
#include <vector>

#include "core/runtime/bootstrap/launch.hpp"
#include "core/runtime/engine.hpp"
#include "core/settings.hpp"
#include "core/unique_id.hpp"

namespace capstan {

// How a world comes into being: ranks find each other through the store, exchange addresses and
// what they know of the machine, connect their transports and start their engines.

/// The world that a launcher has started. Throws BootstrapError, TimedOut, InvalidArgument.
std::unique_ptr<Engine> join_launched_world(const Launch& launch, const Settings& settings);

/// The world that has passed round `id`.
std::unique_ptr<Engine> join_world(const UniqueId& id, int rank, int size,
                                   const Settings& settings);

/// A world of threads of this process, entry r for rank r.
std::vector<std::unique_ptr<Engine>> make_thread_world(int ranks, const Settings& settings);

}  // namespace capstan
