// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/membership.hpp"
#include "capstan/settings.hpp"
#include "capstan/store.hpp"
#include "capstan/unique_id.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {

// Worlds and groups are made here: ranks find each other through the store, agree on the machine,
// exchange addresses, connect their transports and start their engines.

/// One rank's part of a communicator.
struct Member {
  std::unique_ptr<Engine> engine;
};

/// The world that a launcher has started. Throws BootstrapError, TimedOut, InvalidArgument.
Member join_launched_world(const Launch& launch, const Settings& settings);

/// The world of the ranks that have got `id`.
Member join_world(const UniqueId& id, int rank, int size, const Settings& settings);

/// The world of the ranks that meet under `prefix` in a store of the program.
Member join_world(std::shared_ptr<Store> store, int rank, int size, const std::string& prefix,
                  const Settings& settings);

/// A world of threads of this process, entry r for rank r.
std::vector<Member> make_thread_world(int ranks, const Settings& settings);

/// A communicator of some ranks of `parent`. All ranks of `parent` call this. `members` are the
/// ranks of this rank's group, in order. A rank in no group passes none, and gets no result.
/// `purpose`: what the program has called. Throws BootstrapError on all ranks when some cannot
/// connect.
std::optional<Member> make_group(Member& parent, const std::vector<Rank>& members, Purpose purpose);
/// The same where the members alone call it, this rank among them. Groups that the same ranks form
/// at the same time need different tags, from 0 to Messages::largest_group_tag.
Member make_group_of_members(Member& parent, const std::vector<Rank>& members, int tag);
/// The same for all ranks, with other rules for algorithms (Settings::algorithm).
Member make_twin(Member& parent, const Settings& settings);

/// The ranks that make_shrunk() leaves out, and those that may continue.
struct Shrinking {
  std::vector<Rank> excluded{};  ///< they take no part; the same on all ranks
  bool minority = false;         ///< ranks continue though more than they may live elsewhere
};
/// A communicator of the ranks of `parent` that are left, whether it has failed or not. They all
/// call this. Throws PeerLost where the others may be more and may have continued, TimedOut,
/// BootstrapError on all ranks.
Member make_shrunk(Member& parent, const Shrinking& shrinking);

/// The new ranks of a communicator, and where they are met.
struct Growing {
  int joiners = 0;
  MeetingPlace place{};
};
/// A world of the ranks of `parent` and new ones, which call join_growing_world(). All ranks of
/// `parent` call this. Throws alike on all of them BootstrapError, PeerLost, Mismatch, TimedOut.
Member make_grown(Member& parent, const Growing& growing);
/// A new rank's part, as `rank` or, if that is -1, as the first that is free.
Member join_growing_world(const MeetingPlace& place, int rank, const Settings& settings);

}  // namespace capstan
