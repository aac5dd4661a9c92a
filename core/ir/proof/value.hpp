#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capstan/quantity.hpp"

namespace capstan::proof {

/// Element `index` of the input that `rank` gave to one block of one call; blocks are numbered
/// through all calls.
struct Contribution {
  int block = 0;
  Rank rank{};
  Elements index{};

  auto operator<=>(const Contribution&) const = default;
};

/// The content of one element: a multiset of contributions, as a small number. Equal contents have
/// equal numbers, so that comparing and adding are cheap however many ranks take part.
using ValueId = std::uint32_t;

/// All values that occur in one verification.
class Values {
 public:
  static constexpr ValueId nothing = 0;  ///< never written

  ValueId contribution(const Contribution& contribution);
  /// The union of two values, neither of which is `nothing`.
  ValueId sum(ValueId a, ValueId b);
  /// The same contents, marked as complete: no further addition is expected.
  ValueId completed(ValueId value);

  bool is_complete(ValueId value) const { return contents_[value].complete; }
  /// Whether the terms come from consecutive ranks and were added in that order, as an operation
  /// that is not commutative needs.
  bool is_ordered(ValueId value) const { return contents_[value].ordered; }
  const std::vector<std::pair<Contribution, int>>& terms(ValueId value) const {
    return contents_[value].terms;
  }

  Values() : contents_(1) {}

 private:
  struct Content {
    std::vector<std::pair<Contribution, int>> terms;  // sorted; how often each
    bool complete = false;
    bool ordered = true;

    auto operator<=>(const Content&) const = default;
  };

  ValueId intern(Content content);
  bool follows(ValueId a, ValueId b) const;

  std::vector<Content> contents_;
  std::map<Content, ValueId> ids_;
  std::unordered_map<std::uint64_t, ValueId> sums_;
};

}  // namespace capstan::proof
