// SPDX-License-Identifier: Apache-2.0
#include "capstan/group.hpp"

#include <algorithm>
#include <string>

#include "capstan/error.hpp"

namespace capstan {

Group Group::world(const Hosts& hosts, Rank self) {
  const int size = hosts.ranks();
  if (self.value() < 0 || self.value() >= size)
    throw InvalidArgument("rank " + std::to_string(self.value()) + " is not in a world of " +
                          std::to_string(size) + " ranks: use ranks 0 to size-1");
  Group world{size, self.value()};
  if (!hosts.single()) world.hosts_ = std::make_shared<const Hosts>(hosts);
  return world;
}

Group::Group(std::vector<Rank> members, Rank self)
    : members_(std::move(members)), size_(static_cast<int>(members_.size())) {
  const auto found = std::ranges::find(members_, self);
  if (found == members_.end())
    throw InvalidArgument("rank " + std::to_string(self.value()) + " is not a member of the group");
  position_ = static_cast<int>(found - members_.begin());

  auto sorted = members_;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    throw InvalidArgument("a group names a rank twice: every member may appear once");
}

}  // namespace capstan
