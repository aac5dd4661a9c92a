// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

#include "capstan/schedule.hpp"

namespace capstan {

/// Folds a group of any size onto a power of two, for algorithms that exchange along the bits of a
/// position (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
/// in MPICH", 2005, section 4.5). Of the first 2·(p - 2^k) members the even ones hand their input
/// to their right neighbour, sit out, and get the result back at the end.
class PowerOfTwoFold {
 public:
  explicit PowerOfTwoFold(const Group& group)
      : group_(group),
        size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))),
        folded_(group.size() - size_) {}

  /// The largest power of two not above the group's size.
  int size() const { return size_; }
  /// This rank hands its work to its right neighbour.
  bool sits_out() const { return in_folded_part() && group_.position() % 2 == 0; }
  /// This rank works for its left neighbour too.
  bool represents() const { return in_folded_part() && group_.position() % 2 == 1; }
  Rank partner() const { return sits_out() ? group_.right() : group_.left(); }

  /// The number of this rank, or of who represents it, among those that work, 0 .. size()-1.
  int id() const { return id_of(group_, group_.position()); }
  static int id_of(const Group& group, int position) {
    const int folded =
        group.size() - static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())));
    return position < 2 * folded ? position / 2 : position - folded;
  }
  /// The rank whose id() is `id`.
  Rank member(int id) const { return group_[id < folded_ ? 2 * id + 1 : id + folded_]; }

  /// The positions that the ids [first, first + number) work for; they are adjacent.
  int first_position(int id) const { return id < folded_ ? 2 * id : id + folded_; }
  int positions(int first, int number) const {
    return first_position(first + number) - first_position(first);
  }

  /// Brings the contributions of those who sit out to their representatives, with `landing` in
  /// between, adds them up in `sum` and returns where this rank's contribution is now.
  Span gather(ScheduleBuilder& s, Span landing, Span sum) const {
    if (sits_out()) s.send(partner(), landing, s.input());
    if (!represents()) return s.input();
    s.wait(partner());
    const Span sources[] = {landing, s.input()};
    s.reduce(sum, sources);
    return sum;
  }

  /// Gives the result to those who sat out.
  void scatter(ScheduleBuilder& s) const {
    if (sits_out()) s.wait(partner());
    if (represents()) s.send(partner(), s.output(), s.output());
  }

 private:
  bool in_folded_part() const { return group_.position() < 2 * folded_; }

  const Group& group_;
  int size_;
  int folded_;
};

}  // namespace capstan
