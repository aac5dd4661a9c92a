// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>

namespace capstan {

/// How the data of a long message cross to its receiver on the same host.
enum class MessageWay : std::uint8_t {
  fragments,           ///< the sender copies them into its ring, the receiver out of it
  streamed_fragments,  ///< the same, by stores past the sender's cache
  read,                ///< the kernel copies them from buffer to buffer
};

/// Finds the fastest way for the messages of one sender to one receiver, by their length: it
/// depends on where the two cores are, which may change. For offered messages the receiver decides,
/// for those that begin unasked the sender, which cannot have them read: it has the first two ways.
/// Times are passed in.
class MessageWays {
 public:
  using Time = std::chrono::nanoseconds;
  enum class Deciding : std::uint8_t { receiver, sender };

  explicit MessageWays(Deciding rank) : ways_(rank == Deciding::receiver ? most_ways : 2) {}

  /// Whether the time of the next message is wanted.
  bool measures(std::uint64_t bytes) const { return classes_[class_of(bytes)].left == 0; }
  MessageWay next(std::uint64_t bytes);
  void note(std::uint64_t bytes, MessageWay way, Time took);

 private:
  static constexpr int most_ways = 3, tries = 3;
  static constexpr std::uint32_t shortest_pause = 256, longest_pause = 1 << 14;
  /// Messages of lengths that lie within a factor of two.
  struct Class {
    std::array<Time, most_ways> least = filled(Time::max());  ///< of this round
    std::uint32_t begun = 0, noted = 0;                       ///< messages of this round
    MessageWay best = MessageWay::fragments;
    std::uint32_t pause = shortest_pause, left = 0;  ///< messages until the next round
  };
  static constexpr std::array<Time, most_ways> filled(Time time) { return {time, time, time}; }
  static std::size_t class_of(std::uint64_t bytes) {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes)), classes - 1);
  }
  void decide(Class& known);

  static constexpr std::size_t classes = 33;
  const std::uint32_t ways_;
  std::array<Class, classes> classes_{};
};

}  // namespace capstan
