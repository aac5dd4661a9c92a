// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/hosts.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// An ordered list of ranks, seen by one of its members. Algorithms count in positions within the
/// group (0 .. size-1) and name peers by indexing it, so that the same algorithm runs over the
/// world, over the ranks of one host, or over one rank of every host.
class Group {
 public:
  /// All ranks of `hosts` as seen by `self`. Takes constant space when that is one host.
  static Group world(const Hosts& hosts, Rank self);
  /// Throws InvalidArgument when `members` repeats a rank or lacks `self`.
  Group(std::vector<Rank> members, Rank self);

  /// The hosts of the ranks of the world, for algorithms that treat links within a host and between
  /// hosts differently. A group of some ranks counts as being on one host.
  Hosts hosts() const { return hosts_ ? *hosts_ : Hosts{size_}; }

  int size() const { return size_; }
  /// The position of this rank in the group.
  int position() const { return position_; }
  Rank self() const { return (*this)[position_]; }

  /// The member at `position`, 0 .. size-1.
  Rank operator[](int position) const {
    return members_.empty() ? Rank{position} : members_[static_cast<std::size_t>(position)];
  }
  /// `position` reduced to 0 .. size-1, as if the members stood in a circle.
  int wrap(int position) const { return ((position % size_) + size_) % size_; }
  Rank right(int distance = 1) const { return (*this)[wrap(position_ + distance)]; }
  Rank left(int distance = 1) const { return (*this)[wrap(position_ - distance)]; }

 private:
  Group(int size, int position) : size_(size), position_(position) {}

  std::vector<Rank> members_;           // empty: the world
  std::shared_ptr<const Hosts> hosts_;  // null: one host
  int size_;
  int position_;
};

}  // namespace capstan
