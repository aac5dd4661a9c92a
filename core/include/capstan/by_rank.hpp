// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The ranks of a group in order: 0 .. ranks-1.
inline auto all_ranks(int ranks) {
  return std::views::iota(0, ranks) | std::views::transform([](int rank) { return Rank{rank}; });
}

/// A list with one element for each rank of a group, indexed by `Rank`: code that keeps a value per
/// peer needs no casts, and cannot index by anything else. Not checked: the index must be below
/// size().
template <class T>
class ByRank {
 public:
  using value_type = T;

  ByRank() = default;
  explicit ByRank(int ranks) : elements_(static_cast<std::size_t>(ranks)) {}
  ByRank(int ranks, const T& value) : elements_(static_cast<std::size_t>(ranks), value) {}
  ByRank(std::initializer_list<T> elements) : elements_(elements) {}
  explicit ByRank(std::vector<T> elements) : elements_(std::move(elements)) {}

  decltype(auto) operator[](Rank rank) { return elements_[static_cast<std::size_t>(rank.value())]; }
  decltype(auto) operator[](Rank rank) const {
    return elements_[static_cast<std::size_t>(rank.value())];
  }

  /// The number of ranks.
  int size() const { return static_cast<int>(elements_.size()); }
  bool empty() const { return elements_.empty(); }

  auto begin() { return elements_.begin(); }
  auto end() { return elements_.end(); }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }

  void push_back(T element) { elements_.push_back(std::move(element)); }
  void resize(int ranks) { elements_.resize(static_cast<std::size_t>(ranks)); }

  /// The elements in the order of ranks.
  const std::vector<T>& elements() const { return elements_; }
  bool operator==(const ByRank&) const = default;

 private:
  std::vector<T> elements_;
};

}  // namespace capstan
