// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/span.hpp"

namespace CAPSTAN_EXPORT capstan {

/// How a buffer is cut into one block per rank; blocks are adjacent and may be empty.
class Blocks {
 public:
  /// `blocks` nearly equal blocks of `total` elements, as nth_block cuts them. Constant space.
  static Blocks even(int blocks, Elements total) { return Blocks{blocks, total}; }
  /// `blocks` blocks of `each` elements. Constant space.
  static Blocks equal(int blocks, Elements each) {
    return Blocks{blocks, each * static_cast<std::uint64_t>(blocks)};
  }
  /// Blocks of these lengths.
  explicit Blocks(std::span<const Elements> lengths);

  int size() const { return size_; }
  Elements total() const { return total_; }
  /// The length of the largest block.
  Elements largest() const { return largest_; }

  Range operator[](int index) const {
    if (starts_.empty()) return nth_block(total_, size_, index);
    const auto i = static_cast<std::size_t>(index);
    return {starts_[i], starts_[i + 1] - starts_[i]};
  }
  /// Blocks [first, first + number) as one range.
  Range range(int first, int number) const;

 private:
  Blocks(int blocks, Elements total)
      : size_(blocks), total_(total), largest_(nth_block(total, blocks, 0).length) {}

  int size_;
  Elements total_, largest_;
  std::vector<Elements> starts_;  // of each block and the end; empty: nth_block
};

}  // namespace capstan
