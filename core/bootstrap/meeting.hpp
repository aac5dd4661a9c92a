// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/membership.hpp"
#include "core/bootstrap/store/store.hpp"
#include "core/platform/net/endpoint.hpp"

namespace capstan {

/// The store at a MeetingPlace.
struct MeetingPoint {
  SocketEndpoint endpoint;
  Secret secret;
  std::string scope;
  std::optional<UniqueId> id{};  ///< its server runs already; else a member hosts the store
};

/// `secret` is that of a name which has none of its own. Throws InvalidArgument for a place that is
/// none.
MeetingPoint meeting_at(const MeetingPlace& place, const std::string& secret);

/// Whether a store at the endpoint can be hosted on this host.
bool is_here(const SocketEndpoint& endpoint);

/// The store as member `rank` of the `size` ranks that there will be sees it: hosts it, or joins
/// the one that another member hosts. Throw BootstrapError, SystemError where another communicator
/// meets its new ranks there at this time. `look` is called now and then, and throws where that
/// other member is gone.
std::unique_ptr<JobStore> host_meeting(const MeetingPoint& meeting, int rank, int size,
                                       Deadline deadline);
std::unique_ptr<JobStore> attend_meeting(const MeetingPoint& meeting, int rank, int size,
                                         Deadline deadline, std::function<void()> look);

/// The numbers of ranks before and after.
struct Growth {
  std::int32_t before = 0, after = 0;
};
/// Tells new ranks, which wait for it.
void announce_growth(Store& store, const Growth& growth);

/// The place of a new rank.
struct MeetingSeat {
  std::unique_ptr<JobStore> store;
  int rank = 0;
  Growth growth;
};
/// Waits until the members meet, and takes the place of `rank` or, where that is -1, the first free
/// one. By a name it waits for the next meeting where all places are taken. Throws BootstrapError
/// when it has got none by the deadline, at once for a wrong secret or an id whose server has
/// ended.
MeetingSeat take_seat(const MeetingPoint& meeting, int rank, Deadline deadline);
/// Whether a new rank has taken the place of `rank`.
bool is_taken(Store& store, int rank);

/// The ranks that have joined the store of a meeting and left it.
std::vector<int> departures(Store& store);

}  // namespace capstan
