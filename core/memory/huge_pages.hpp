#pragma once

#include <cstdint>
#include <unordered_map>

#include "capstan/quantity.hpp"

namespace capstan {

// Pages of 2 MiB. What one process reads and writes of another's memory, the kernel looks up page
// by page, and several readers of one page hinder each other.

inline constexpr Bytes huge_page{2 << 20};

/// Makes huge pages of those parts of the memory that can be one, whatever the system's policy is.
/// What is there stays as it is; who uses it meanwhile is delayed. Takes from a third of a
/// millisecond to several per page that is copied. False if some could not, as they are locked, or
/// their owner has asked for small ones, or there is no memory for it. Thread-safe.
bool collapse_pages(const void* begin, Bytes size);

/// The same for the pages at the ends of the memory, with what else is in them, unless that adds
/// more memory at an end than half of `size`, or half a page. False if an end is in no huge page
/// after that. Thread-safe.
bool collapse_ends(const void* begin, Bytes size);

/// Whether this system does so at all (Linux does from 6.1 on): tries with memory of its own.
bool can_collapse_pages();

/// Puts long buffers that a program uses again and again into huge pages. Not thread-safe.
class RecurringBuffers {
 public:
  /// From here on copies by the kernel are faster than others, if pages are huge.
  static constexpr Bytes worth_it{128 << 10};

  /// Called before each use. Of a long one it is noticed if another one may have come to be in its
  /// place, as the program has touched half as much new memory since, in small pages.
  void use(const void* begin, Bytes size) {
    if (size >= worth_it) note(begin, size);
  }
  /// Every buffer that has been used before is looked at when it is used next: another one of its
  /// size may be in its place.
  void look_again() { ++occasion_; }
  /// Buffers that are remembered.
  std::size_t known() const { return recent_.size() + older_.size(); }

 private:
  struct Uses {
    Bytes size{};
    std::uint64_t count = 0, next = 2;  ///< when it is tried
    std::uint64_t period = 32;          ///< after that
    std::uint64_t occasion = 0;         ///< the last that is known here
    std::uint64_t faults = 0;           ///< of the process, up to the last use
    bool is_new = false;                ///< may have been, at the last use
    bool can_be_huge = true;            ///< its inner pages, as far as is known
  };
  void note(const void* begin, Bytes size);
  static bool note_faults(Uses& uses);
  Uses& uses_of(const void* begin);

  std::unordered_map<const void*, Uses> recent_, older_;  // by where the buffer begins
  std::uint64_t occasion_ = 0;
};

}  // namespace capstan
