// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

/// Counts for each address how many added ranges cover it. Watching a page, for example, starts
/// when its count leaves zero and ends when it is zero again. Not thread-safe.
class RangeCounts {
 public:
  using Visitor = std::function<void(AddressRange)>;

  void add(AddressRange range);
  /// Takes back one add() of every address of `range`, which must be covered. Visits the parts
  /// whose count becomes zero.
  void remove(AddressRange range, const Visitor& visit = {});

  /// Number of covered bytes, each counted once.
  Bytes total() const { return total_; }

 private:
  struct Part {
    std::uintptr_t end;
    std::uint64_t count;
  };
  using Parts = std::map<std::uintptr_t, Part>;

  /// Splits the part that contains `address`, so that a part begins there.
  void split(std::uintptr_t address);
  void join_neighbours(AddressRange range);

  Parts parts_;  ///< by their begin; disjoint, counts above zero
  Bytes total_{};
};

}  // namespace capstan
