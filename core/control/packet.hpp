#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capstan/quantity.hpp"

namespace capstan {

/// One cache line that carries its own notice of arrival: the payload and a tag that says which
/// message of which call it belongs to. The reader polls the tag and finds the payload in the same
/// line, so that a small message costs one cache miss.
struct alignas(64) Packet {
  static constexpr std::size_t payload_bytes = 56;

  std::byte payload[payload_bytes];
  std::atomic<std::uint64_t> tag;

  bool arrived(std::uint64_t expected) const {
    return tag.load(std::memory_order_acquire) == expected;
  }
  void publish(std::uint64_t value) { tag.store(value, std::memory_order_release); }
};
static_assert(sizeof(Packet) == 64);

/// The tag of a message: which one it is, and a digest of the call that it belongs to, so that a
/// packet of a different call never passes for the one that is awaited. Never 0, which is what a
/// line holds before its first use.
constexpr std::uint64_t packet_tag(std::uint64_t message, std::uint32_t call_digest) {
  return static_cast<std::uint64_t>(call_digest) << 32 | ((message + 1) & 0xffff'ffff);
}

/// Elements of `element` bytes that one packet holds.
constexpr std::uint64_t elements_per_packet(Bytes element) {
  return Packet::payload_bytes / element.value();
}

/// Packets that hold `count` elements.
constexpr std::uint64_t packets_for(Elements count, Bytes element) {
  const std::uint64_t each = elements_per_packet(element);
  return (count.value() + each - 1) / each;
}

}  // namespace capstan
