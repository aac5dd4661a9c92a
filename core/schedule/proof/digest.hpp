// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "capstan/quantity.hpp"

namespace capstan::proof {

/// A digest of 128 bits of a sequence of words: two sequences have the same one in no likelihood
/// that counts. Not for enemies who choose the words.
class Digest {
 public:
  using Value = std::array<std::uint64_t, 2>;

  void add(std::uint64_t word) {
    for (std::size_t i = 0; i < state_.size(); ++i) {
      // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), of another sequence for each.
      std::uint64_t x = state_[i] + word + 0x9e37'79b9'7f4a'7c15 * (2 * i + 1);
      x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9;
      x = (x ^ x >> 27) * 0x94d0'49bb'1331'11eb;
      state_[i] = x ^ x >> 31;
    }
  }
  template <class Tag, class Rep>
  void add(Quantity<Tag, Rep> quantity) {
    add(static_cast<std::uint64_t>(quantity.value()));
  }
  void add(Rank rank) { add(static_cast<std::uint64_t>(rank.value())); }

  const Value& value() const { return state_; }

 private:
  Value state_{0x6361'7073'7461'6e31, 0x6361'7073'7461'6e32};
};

}  // namespace capstan::proof
