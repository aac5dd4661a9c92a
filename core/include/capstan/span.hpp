// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A contiguous range of elements: its offset and its length.
struct Range {
  Elements offset;
  Elements length;

  constexpr Elements end() const { return offset + length; }
  constexpr bool empty() const { return length == Elements{0}; }
  constexpr bool operator==(const Range&) const = default;
};

/// Block `index` of `count` elements cut into `blocks` nearly equal blocks: the first
/// `count % blocks` blocks hold one element more. Blocks are adjacent, cover the whole and may be
/// empty when there are fewer elements than blocks.
constexpr Range nth_block(Elements count, int blocks, int index) {
  const auto n = count.value(), parts = static_cast<std::uint64_t>(blocks),
             i = static_cast<std::uint64_t>(index);
  const std::uint64_t base = n / parts, longer = n % parts;
  const std::uint64_t offset = i * base + (i < longer ? i : longer);
  return {Elements{offset}, Elements{base + (i < longer ? 1 : 0)}};
}

/// The buffer of an operand. `input` and `output` are the caller's and exist only during a call
/// (and may be the same memory); `scratch` is the communicator's and outlives calls.
enum class Buffer : std::uint8_t { input, output, scratch };

std::string_view name_of(Buffer buffer);

/// A relocatable operand: a range of one of a rank's buffers, never a pointer.
struct Span {
  Buffer buffer = Buffer::input;
  Elements offset;
  Elements length;

  constexpr Elements end() const { return offset + length; }
  constexpr bool empty() const { return length == Elements{0}; }
  constexpr bool operator==(const Span&) const = default;

  /// The part of this span that `range` (counted from this span's start) names.
  constexpr Span part(Range range) const { return {buffer, offset + range.offset, range.length}; }
  /// The first `count` elements.
  constexpr Span first(Elements count) const { return {buffer, offset, count}; }
};

}  // namespace capstan
