// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/engine/world/world.hpp"

namespace capstan {

/// A rank's answer while groups are formed: the address of its transport or, for threads, the
/// number of their handoff.
struct Announcement {
  std::uint32_t length = 0;
  std::uint32_t shares_buffers = 0;  ///< see Engine::expects_shared_buffers()
  std::byte address[1016]{};
};

struct Handoff;

/// This rank's side of a group that is being formed.
class Formation {
 public:
  /// `members` is kept by reference.
  Formation(Engine& parent, const std::vector<Rank>& members);

  /// Makes the transport of this rank. The first of several threads makes those of all members.
  Announcement open();
  /// `announcements` of the members, in their order. Those that are here do not wait any longer for
  /// one that does not come. Throws BootstrapError.
  void connect(const std::vector<Announcement>& announcements, Deadline deadline);
  /// This rank's part of the group, which has been connected.
  Member start(const std::vector<Announcement>& announcements, const Settings& settings);

  /// The machine as far as the members use it.
  MachineView machine() const;
  std::vector<Rank> world_ranks() const;

 private:
  Hosts hosts() const;
  void take(const Address& address);

  Engine& parent_;
  const std::vector<Rank>& members_;
  const int position_;
  const bool threads_;
  const SegmentLayout layout_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Handoff> handoff_;  // null except in the first of several threads
};

}  // namespace capstan
