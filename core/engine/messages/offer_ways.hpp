// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

namespace capstan {

/// How the data of an offered message cross to its receiver on the same host.
enum class OfferWay : std::uint8_t {
  fragments,           ///< the sender copies them into its ring, the receiver out of it
  streamed_fragments,  ///< the same, by stores past the sender's cache
  read,                ///< the kernel copies them from buffer to buffer
};

/// Finds the fastest way for the messages of one sender, by their length: it depends on where the
/// two cores are, which may change. The receiver alone decides. Times are passed in.
class OfferWays {
 public:
  using Time = std::chrono::nanoseconds;

  OfferWay next(std::uint64_t bytes);
  void note(std::uint64_t bytes, OfferWay way, Time took);

 private:
  static constexpr int ways = 3, tries = 3;
  static constexpr std::uint32_t shortest_pause = 256, longest_pause = 1 << 14;
  /// Messages of lengths that lie within a factor of two.
  struct Class {
    std::array<Time, ways> least = filled(Time::max());  ///< of this round
    std::uint8_t noted = 0;                              ///< messages of this round
    OfferWay best = OfferWay::fragments;
    std::uint32_t pause = shortest_pause, left = 0;  ///< messages until the next round
  };
  static constexpr std::array<Time, ways> filled(Time time) { return {time, time, time}; }
  static std::size_t class_of(std::uint64_t bytes) {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes)), classes - 1);
  }
  void decide(Class& known);

  static constexpr std::size_t classes = 33;
  std::array<Class, classes> classes_{};
};

}  // namespace capstan
