#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/selection/link_model.hpp"

namespace capstan {

/// Puts long buffers that a program uses again and again into huge pages. Not thread-safe.
class RecurringBuffers {
 public:
  /// To be called before each use of a buffer. A long buffer counts as new memory once the process
  /// has touched half as much new memory, in small pages, since its last use.
  void use(const void* begin, Bytes size) {
    if (size >= worth_huge_pages) note(begin, size);
  }
  /// Makes every known buffer be tried again at its next use, as other memory of the same size may
  /// be in its place.
  void look_again() { ++generation_; }
  /// Number of buffers that are remembered.
  std::size_t known() const { return recent_.size() + older_.size(); }

 private:
  struct Uses {
    Bytes size{};
    std::uint64_t count = 0, next = 2;  ///< the use at which collapsing is tried
    std::uint64_t period = 32;          ///< uses until it is tried again
    std::uint64_t generation = 0;       ///< value of generation_ at the last use
    std::uint64_t faults = 0;           ///< page faults of the process up to the last use
    bool is_new = false;                ///< whether it looked like new memory at the last use
    bool can_be_huge = true;            ///< whether its inner pages can be, as far as is known
  };
  void note(const void* begin, Bytes size);
  static bool note_faults(Uses& uses);
  Uses& uses_of(const void* begin);

  std::unordered_map<const void*, Uses> recent_, older_;  // by the buffer's begin
  std::uint64_t generation_ = 0;
};

}  // namespace capstan
