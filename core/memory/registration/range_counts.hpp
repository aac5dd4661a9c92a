#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "core/memory/registration/address_range.hpp"

namespace capstan {

/// How many of the ranges that were added cover each address. What is done once for a page however
/// many want it (locking it, watching it) is done when its count leaves zero, and undone when it
/// is zero again. Not thread-safe.
class RangeCounts {
 public:
  using Visitor = std::function<void(AddressRange)>;

  /// The parts of `range` that nothing covers, in order.
  void uncovered(AddressRange range, const Visitor& visit) const;
  /// Every address of `range` is covered. True for an empty one.
  bool covers(AddressRange range) const;

  void add(AddressRange range);
  /// Takes back one add() of every address of `range`, which must be covered; visits the parts
  /// that nothing covers any more.
  void remove(AddressRange range, const Visitor& visit = {});
  /// However often it was added.
  void forget(AddressRange range);

  /// Bytes that are covered, each counted once.
  Bytes total() const { return total_; }

 private:
  struct Part {
    std::uintptr_t end;
    std::uint64_t count;
  };
  using Parts = std::map<std::uintptr_t, Part>;

  /// Sees to it that no part lies on both sides of `address`.
  void split(std::uintptr_t address);
  void join_neighbours(AddressRange range);

  Parts parts_;  ///< by where they begin; disjoint, counts above zero
  Bytes total_{};
};

}  // namespace capstan
