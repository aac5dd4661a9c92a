// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "capstan/quantity.hpp"

namespace capstan {

// Huge pages, of 2 MiB. When one process reads or writes another's memory, the kernel looks up
// every page, and several readers of one page contend for it: fewer, larger pages make that faster.

inline constexpr Bytes huge_page{2 << 20};

/// Collapses each part of the memory that can be a huge page, whatever the system's policy is. The
/// contents stay; threads that use the memory meanwhile are delayed. Takes from a third of a
/// millisecond to several milliseconds per page that is copied. False if some part could not be
/// collapsed: it is locked, or its owner has asked for small pages, or there is no free memory.
/// Thread-safe.
bool collapse_pages(const void* begin, Bytes size);

/// The places of huge pages that hold a part of some memory, in the order of their addresses.
class HugePlaces {
 public:
  HugePlaces(const void* begin, Bytes size);

  std::size_t count() const { return count_; }
  /// Whether the memory fills the place. At its ends it need not.
  bool is_filled(std::size_t place) const;
  /// Collapses the pages of one place; at an end with other data that these pages hold, unless that
  /// adds more memory than half of the whole memory, or half a page. False if no huge page is
  /// there after that. Takes as long as collapse_pages(). Thread-safe.
  bool collapse(std::size_t place) const;

 private:
  std::uint64_t address(std::size_t place) const {
    return (begin_ / huge_page.value() + place) * huge_page.value();
  }

  std::uint64_t begin_, end_;
  std::size_t count_;
};

/// Whether this system can collapse pages (Linux from 6.1 on). Tries with memory of its own.
bool can_collapse_pages();

}  // namespace capstan
