#pragma once

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

/// Collapses the pages at the two ends of the memory, with other data that these pages hold, unless
/// that adds more memory at an end than half of `size`, or half a page. False if an end is in no
/// huge page after that. Thread-safe.
bool collapse_ends(const void* begin, Bytes size);

/// Whether this system can collapse pages (Linux from 6.1 on). Tries with memory of its own.
bool can_collapse_pages();

}  // namespace capstan
