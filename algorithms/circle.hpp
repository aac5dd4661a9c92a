// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "capstan/blocks.hpp"

namespace capstan {

/// Calls visit(Range) for blocks first .. first + number - 1, counted round the circle: once, or
/// twice where they go over the end.
template <class Visit>
void for_blocks_in_circle(const Blocks& blocks, int first, int number, Visit visit) {
  const int p = blocks.size(), begin = ((first % p) + p) % p;
  const int before_end = std::min(number, p - begin);
  visit(blocks.range(begin, before_end));
  if (number > before_end) visit(blocks.range(0, number - before_end));
}

/// A length that `number` blocks which follow one another in the circle never exceed.
inline Elements room_for_blocks(const Blocks& blocks, int number) {
  return std::min(blocks.total(), blocks.largest() * static_cast<std::uint64_t>(number));
}

}  // namespace capstan
