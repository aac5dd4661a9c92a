// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "tests/conformance/world.hpp"

namespace capstan::conformance {

/// Uses segments like the engine: a flag per peer in a line of its own, then one slot of data per
/// peer and parity of the round.
class Mailbox {
 public:
  static Bytes segment_for(int ranks, Bytes slot) {
    const auto count = static_cast<std::uint64_t>(ranks);
    return Bytes{count * line + 2 * count * slot.value()};
  }

  Mailbox(const Member& member, Transport& transport, Bytes slot)
      : member_(member), transport_(transport), slot_(slot) {}

  /// The slot for `peer` in `round`, and the slot of `peer` for this rank.
  Bytes offset_of(Rank peer, std::uint64_t round) const { return Bytes{slot_offset(peer, round)}; }
  std::byte* outgoing(Rank peer, std::uint64_t round) {
    return transport_.segment().data() + slot_offset(peer, round);
  }
  const std::byte* incoming(Rank peer, std::uint64_t round) const {
    return transport_.link(peer).segment + slot_offset(member_.self(), round);
  }

  /// Makes `length` bytes of the slot visible to `peer`, then the flag with the number `round`.
  void send(Rank peer, std::uint64_t round, Bytes length) {
    transport_.push(peer, Bytes{slot_offset(peer, round)}, length);
    raise_flag(peer, round);
  }
  void raise_flag(Rank peer, std::uint64_t round) {
    const std::uint64_t offset = flag_offset(peer);
    flag(transport_.segment().data() + offset).store(round, std::memory_order_release);
    transport_.push(peer, Bytes{offset}, Bytes{sizeof(std::uint64_t)});
    transport_.wake(transport_.link(peer));
  }

  /// Returns when everything sent will arrive even if this rank makes no more progress.
  void settle() {
    const auto sent = [&](Rank peer) { return transport_.pushed(peer); };
    wait_until([&] { return transport_.progress(), std::ranges::all_of(member_.peers(), sent); },
               "what was pushed to be sent");
  }

  bool has_come(Rank peer, std::uint64_t round) const { return flag_of(peer) >= round; }
  std::uint64_t flag_of(Rank peer) const {
    const std::byte* place = transport_.link(peer).segment + flag_offset(member_.self());
    return flag(const_cast<std::byte*>(place)).load(std::memory_order_acquire);
  }

  void await(Rank peer, std::uint64_t round) {
    wait_until([&] { return transport_.progress(), has_come(peer, round); }, "a flag");
  }
  /// Like await, but sleeps between checks. A lost wake-up ends the test.
  void await_asleep(Rank peer, std::uint64_t round) {
    wait_until(
        [&] {
          transport_.prepare_to_sleep();
          transport_.progress();
          if (has_come(peer, round)) return transport_.cancel_sleep(), true;
          transport_.sleep(2 * patience);
          return has_come(peer, round);
        },
        "a flag, asleep");
  }

 private:
  static constexpr std::uint64_t line = 64;

  static std::atomic_ref<std::uint64_t> flag(std::byte* place) {
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(place)};
  }
  static std::uint64_t flag_offset(Rank peer) {
    return static_cast<std::uint64_t>(peer.value()) * line;
  }
  std::uint64_t slot_offset(Rank peer, std::uint64_t round) const {
    const auto ranks = static_cast<std::uint64_t>(member_.ranks());
    const auto place = static_cast<std::uint64_t>(peer.value()) * 2 + round % 2;
    return ranks * line + place * slot_.value();
  }

  const Member& member_;
  Transport& transport_;
  Bytes slot_;
};

/// The message from `from` to `to` in `round`. All words of all messages differ.
inline std::uint64_t word_of(Rank from, Rank to, std::uint64_t round, std::uint64_t index) {
  std::uint64_t x = (static_cast<std::uint64_t>(from.value()) << 56) ^
                    (static_cast<std::uint64_t>(to.value()) << 48) ^ (round << 28) ^ index;
  x = (x ^ (x >> 31)) * 0x9e37'79b9'7f4a'7c15;  // scatters the bits, one to one
  return x ^ (x >> 29);
}

inline void write_message(std::byte* place, Rank from, Rank to, std::uint64_t round,
                          std::uint64_t words) {
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t word = word_of(from, to, round, i);
    std::memcpy(place + i * sizeof(word), &word, sizeof(word));
  }
}

/// The number of wrong words in a message.
inline std::uint64_t wrong_words(const std::byte* place, Rank from, Rank to, std::uint64_t round,
                                 std::uint64_t words) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, place + i * sizeof(word), sizeof(word));
    wrong += word != word_of(from, to, round, i) ? 1 : 0;
  }
  return wrong;
}

}  // namespace capstan::conformance
