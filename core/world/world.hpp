#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "capstan/settings.hpp"
#include "capstan/unique_id.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/engine/engine.hpp"

namespace capstan {

// How a world comes into being: ranks find each other through the store, exchange addresses and
// what they know of the machine, connect their transports and start their engines.

/// What one rank has of a communicator.
struct Member {
  std::unique_ptr<Engine> engine;
};

/// The world that a launcher has started. Throws BootstrapError, TimedOut, InvalidArgument.
Member join_launched_world(const Launch& launch, const Settings& settings);

/// The world that has passed round `id`.
Member join_world(const UniqueId& id, int rank, int size, const Settings& settings);

/// A world of threads of this process, entry r for rank r.
std::vector<Member> make_thread_world(int ranks, const Settings& settings);

/// A communicator of some ranks of `parent`, whose ranks all call this. `members` are those of the
/// group that this rank is to be in, in order, or nobody; then there is no result. Throws
/// BootstrapError on all ranks when some cannot connect.
std::optional<Member> make_group(Member& parent, const std::vector<int>& members);

}  // namespace capstan
