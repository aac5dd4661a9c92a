// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capstan/hosts.hpp"
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

/// The content of one element: a multiset of contributions with the order in which they were added,
/// as a small number. Equal contents have equal numbers, so that comparing and adding are cheap
/// however many ranks take part.
using ValueId = std::uint32_t;

/// All values that occur in one verification.
class Values {
 public:
  static constexpr ValueId nothing = 0;  ///< never written

  ValueId contribution(const Contribution& contribution);
  /// The union of two values, neither of which is `nothing`. Where `a` is a sum that is still being
  /// added to, by the same step, `b` is its next term.
  ValueId sum(ValueId a, ValueId b);
  /// The sum when its step has added the last term.
  ValueId summed(ValueId value);
  /// The same contents, marked as complete: no further addition is expected. An average is divided
  /// here: a sum within its step before it is rounded, or one that was stored after that.
  ValueId completed(ValueId value);

  /// One reduction, in the order of hosts, of the sum of each host, which is one reduction of what
  /// its ranks gave: of all ranks' elements beside `first`, which is rank 0's.
  ValueId sum_of_hosts(const Contribution& first, const Hosts& hosts, bool complete);

  bool is_complete(ValueId value) const { return contents_[value].complete; }
  /// Whether the terms come from consecutive ranks and were added in that order, as an operation
  /// that is not commutative needs.
  bool is_ordered(ValueId value) const { return contents_[value].ordered; }
  /// Whether one step added all terms, which are contributions of consecutive ranks, in the order
  /// of ranks: the sum rounds as every other such one does.
  bool is_one_reduction(ValueId value) const { return contents_[value].one_reduction; }
  /// Whether the terms are contributions of consecutive ranks that were added one after the other
  /// in the order of ranks, by one step or by several.
  bool is_left_fold(ValueId value) const { return contents_[value].left_fold; }
  /// Whether two values are the same bits, whatever the contributions are and however sums round:
  /// the same terms in the same sums. a + b rounds as b + a does. A sum of three terms in one step
  /// counts as another one than two sums of two, as a kernel may round once.
  bool same_bits(ValueId a, ValueId b) const { return contents_[a].sum == contents_[b].sum; }
  /// Sorted, and how often each is in the value.
  using Terms = std::vector<std::pair<Contribution, int>>;
  const Terms& terms(ValueId value) const;

  Values() : contents_(1) {}

 private:
  /// A contribution, or the terms of one step's sum. Equal ones have equal numbers.
  using SumId = std::uint32_t;
  /// The facts of a value without a look at its terms: a sum of many sources has as many
  /// values before it.
  struct Content {
    ValueId left = nothing, right = nothing;  // the values that were added; neither: no sum
    Contribution first{}, last{};             // of the terms, if there are any
    bool has_terms = false;
    bool complete = false;
    bool ordered = true;
    bool open = false;  // its step may add more
    bool one_reduction = true;
    bool left_fold = true;
    SumId sum = 0;

    /// The sum says what the terms are, and with the order whether they are one reduction or a left
    /// fold.
    std::uint64_t key() const {
      return std::uint64_t{sum} << 3 | (complete ? 4U : 0U) | (ordered ? 2U : 0U) |
             (open ? 1U : 0U);
    }
    bool is_sum() const { return left != nothing || right != nothing; }
    bool has_one_term() const { return has_terms && first == last; }
  };
  /// How a sum comes from the sum before: of two values that were stored; with one more term in the
  /// same step; or marked as complete.
  enum class Growth : std::uint8_t { begun, extended, completed };

  ValueId intern(const Content& content);
  SumId intern_sum(Growth growth, SumId before, SumId with);
  Terms expanded(ValueId value) const;
  SumId sum_of(ValueId a, ValueId b);
  bool follows(ValueId a, ValueId b) const;
  bool extends_one_reduction(ValueId a, ValueId b) const;

  std::vector<Content> contents_;
  std::unordered_map<std::uint64_t, ValueId> ids_;  // by key
  std::map<Contribution, ValueId> leaves_;
  std::unordered_map<std::uint64_t, ValueId> sums_;
  std::map<Contribution, ValueId> sums_of_hosts_;                    // by rank 0's
  std::array<std::unordered_map<std::uint64_t, SumId>, 3> sum_ids_;  // by growth, and both parts
  SumId last_sum_ = 0;
  mutable std::unordered_map<ValueId, Terms> terms_;  // of those that were asked for
};

}  // namespace capstan::proof
