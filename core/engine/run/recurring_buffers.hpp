// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "core/schedule/selection/link_model.hpp"

namespace capstan {

/// Puts long buffers that a program uses again and again into huge pages, page by page, beside its
/// calls. A page takes from half a millisecond to several: it pays after tens of calls, or never.
/// So each call saves up a tenth of its time, and a page is moved when enough is saved for it: a
/// call is longer by a tenth at most, or by one page. Not thread-safe.
class RecurringBuffers {
 public:
  using Time = std::chrono::nanoseconds;

  /// The functions of the system: its clock, and moving memory into huge pages.
  struct System {
    std::function<Time()> now;
    /// Moves the part of a buffer that is in one of its HugePlaces. False if that is impossible.
    std::function<bool(const void* begin, Bytes size, std::size_t place)> move;
    static System real();
  };
  explicit RecurringBuffers(System system = System::real()) : system_(std::move(system)) {}

  /// To be called before each use of a buffer. A long buffer counts as new memory once the process
  /// has touched half as much new memory, in small pages, since its last use.
  void use(const void* begin, Bytes size) {
    if (size >= worth_huge_pages) note(begin, size);
  }
  /// Makes every known buffer be looked at again from its next use on, as other memory of the same
  /// size may be in its place.
  void look_again() { ++generation_; }
  /// Number of buffers that are remembered.
  std::size_t known() const { return recent_.size() + older_.size(); }

 private:
  static constexpr std::uint64_t first_look = 8;
  struct Uses {
    Bytes size{};
    std::uint64_t count = 0, next = first_look;  ///< the use from which on it is looked at
    std::uint64_t period = 32;                   ///< uses from the end of a look to the next one
    std::uint64_t generation = 0;                ///< value of generation_ at the last use
    std::uint64_t faults = 0;                    ///< page faults of the process up to the last use
    bool is_new = false;      ///< whether it looked like new memory at the last use
    bool can_be_huge = true;  ///< whether its inner pages can be, as far as is known
    std::size_t place = 0;    ///< the next one of the look under way
    bool all_huge = true;     ///< the places of the look so far
  };
  void note(const void* begin, Bytes size);
  void look_at(const void* begin, Uses& uses);
  bool move(const void* begin, const Uses& uses);
  void save_up(Bytes size);
  static bool note_faults(Uses& uses);
  Uses& uses_of(const void* begin);

  const System system_;
  std::unordered_map<const void*, Uses> recent_, older_;  // by the buffer's begin
  std::uint64_t generation_ = 0;
  Time last_use_{};                            // of any buffer; the end of its moves
  Time saved_{};                               // for moves
  Time price_ = std::chrono::milliseconds{2};  // of a page: that of the last one
};

}  // namespace capstan
