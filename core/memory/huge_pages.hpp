#pragma once

#include <cstdint>
#include <unordered_map>

#include "core/ir/quantity.hpp"

namespace capstan {

// Pages of 2 MiB. What one process reads and writes of another's memory, the kernel looks up page
// by page, and several readers of one page hinder each other.

inline constexpr Bytes huge_page{2 << 20};

/// Makes huge pages of the memory, whatever the system's policy is: also of those at its ends, with
/// what else is in them, where all of that is memory of one kind. What is there stays as it is; who
/// uses it meanwhile is delayed. Takes about a third of a millisecond per page that is copied.
/// False if some within could not, as they are locked, or their owner has asked for small ones, or
/// there is no memory for it. Thread-safe.
bool collapse_pages(const void* begin, Bytes size);

/// Whether this system does so at all (Linux does from 6.1 on): tries with memory of its own.
bool can_collapse_pages();

/// Puts long buffers that a program uses again and again into huge pages. Not thread-safe.
class RecurringBuffers {
 public:
  /// From here on copies by the kernel are faster than others, if pages are huge.
  static constexpr Bytes worth_it{128 << 10};

  /// Called before each use.
  void use(const void* begin, Bytes size) {
    if (size >= worth_it) note(begin, size);
  }
  /// Buffers that are remembered.
  std::size_t known() const { return uses_.size(); }

 private:
  struct Uses {
    Bytes size{};
    std::uint64_t count = 0, next = 2;  ///< when it is tried
    std::uint64_t period = 32;          ///< after that
  };
  void note(const void* begin, Bytes size);

  std::unordered_map<const void*, Uses> uses_;  // by where the buffer begins
};

}  // namespace capstan
