// SPDX-License-Identifier: Apache-2.0

// Calls whose buffers exceed what caches are taken to hold, where results go past them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"
#include "tests/variants_of.hpp"

namespace capstan {
namespace {

/// More than 16 MiB of input and output on each rank. Of the second, blocks begin anywhere.
constexpr std::size_t long_counts[] = {2'200'000, 2'150'003};

template <class T>
T element(int rank, std::size_t index) {
  return static_cast<T>((rank + 1) * static_cast<int>(1 + index % 1021));
}

/// The first element that is wrong, or `count`.
template <class T>
std::size_t first_wrong(std::span<const T> sums) {
  std::size_t i = 0;
  while (i < sums.size() && sums[i] == element<T>(5, i)) ++i;  // 1 + 2 + 3 = 6
  return i;
}

template <class T>
void check_all_reduce(const std::string& rule, std::size_t count, bool in_place) {
  Settings settings = bounded_settings();
  settings.algorithm = rule;
  on_threads(3, settings, [&](Communicator& world) {
    std::vector<T> input(count), output(in_place ? 0 : count);
    for (int repetition = 0; repetition < 2; ++repetition) {
      for (std::size_t i = 0; i < count; ++i) input[i] = element<T>(world.rank(), i);
      if (in_place)
        world.all_reduce(std::span{input});
      else
        world.all_reduce(std::span<const T>{input}, std::span{output});
      const auto& sums = in_place ? input : output;
      ASSERT_EQ(first_wrong<T>(sums), count) << rule << (in_place ? ", in place" : "");
    }
  });
}

TEST(LongBuffers, OfAllReduceAreRightInEveryWay) {
  bool in_place = true;
  for (const char* name : {"direct", "flat", "ring"})
    for (const Algorithm& algorithm : algorithms(Collective::all_reduce)) {
      if (algorithm.name != name) continue;
      for (const std::string& variant : variants_of(algorithm))
        for (const std::size_t count : std::span{long_counts}.subspan(sanitized ? 1 : 0)) {
          in_place = !in_place;
          check_all_reduce<float>("all_reduce:" + variant, count, in_place);
          if (!thread_sanitized) check_all_reduce<float>("all_reduce:" + variant, count, !in_place);
        }
    }
}

TEST(LongBuffers, OfOtherTypesAreHandedOutToo) {
  check_all_reduce<std::complex<double>>("all_reduce:direct/write_output", long_counts[1], false);
  check_all_reduce<std::int8_t>("all_reduce:direct/write_output", 4 * long_counts[1], false);
}

}  // namespace
}  // namespace capstan
