// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace capstan {

/// Memory for messages that nobody has asked for yet. Longer buffers are kept for the next one:
/// else their pages would be given back and mapped anew each time.
class SpareBuffers {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;

  /// Memory of so many bytes, with any content.
  Buffer take(std::uint64_t bytes) {
    const int kind = kind_of(bytes);
    if (kind < 0) return std::make_unique_for_overwrite<std::byte[]>(bytes);
    auto& kept = kept_[static_cast<std::size_t>(kind)];
    if (kept.empty()) return std::make_unique_for_overwrite<std::byte[]>(shortest << kind);
    Buffer buffer = std::move(kept.back());
    kept.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer, std::uint64_t bytes) {
    const int kind = kind_of(bytes);
    if (kind < 0 || !buffer) return;
    auto& kept = kept_[static_cast<std::size_t>(kind)];
    if (kept.size() < most_kept) kept.push_back(std::move(buffer));
  }

 private:
  static constexpr std::uint64_t shortest = 4 << 10;
  static constexpr int kinds = 5;  // up to 64 KiB
  static constexpr std::size_t most_kept = 32;

  /// By the length, rounded up to a power of two; below 0: is not kept.
  static int kind_of(std::uint64_t bytes) {
    if (bytes <= shortest / 2 || bytes > shortest << (kinds - 1)) return -1;
    return static_cast<int>(std::bit_width(bytes - 1) - std::bit_width(shortest - 1));
  }

  std::array<std::vector<Buffer>, kinds> kept_;
};

}  // namespace capstan
