// SPDX-License-Identifier: Apache-2.0

// Linked into a second program `capstan`, in which each rank's scan is its own contribution alone:
// for tests of what that program says of wrong algorithms.

#include <array>

#include "algorithms/registry.hpp"

namespace capstan {

// The linker option --wrap makes others call the second of these in place of the first.
std::span<const Algorithm> right_algorithms(Collective collective) asm(
    "__real__ZN7capstan10algorithmsENS_10CollectiveE");
std::span<const Algorithm> these_algorithms(Collective collective) asm(
    "__wrap__ZN7capstan10algorithmsENS_10CollectiveE");

namespace {

Schedule copy_own_input(const Group& group, const Shape& shape) {
  ScheduleBuilder builder{group, shape.count, shape.count};
  builder.copy(builder.output(), builder.input());
  return std::move(builder).build();
}

constexpr std::array broken{
    Algorithm{"broken", Collective::scan, "sums nothing", &copy_own_input, 4096}};

}  // namespace

std::span<const Algorithm> these_algorithms(Collective collective) {
  return collective == Collective::scan ? broken : right_algorithms(collective);
}

}  // namespace capstan
