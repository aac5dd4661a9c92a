// SPDX-License-Identifier: Apache-2.0
#include "capstan/blocks.hpp"

#include <algorithm>

namespace capstan {

Blocks::Blocks(std::span<const Elements> lengths) : size_(static_cast<int>(lengths.size())) {
  starts_.reserve(lengths.size() + 1);
  for (const Elements length : lengths) {
    starts_.push_back(total_);
    total_ += length;
    largest_ = std::max(largest_, length);
  }
  starts_.push_back(total_);
}

Range Blocks::range(int first, int number) const {
  if (number == 0) return {Elements{0}, Elements{0}};
  const Elements begin = (*this)[first].offset;
  return {begin, (*this)[first + number - 1].end() - begin};
}

}  // namespace capstan
