// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/schedule/lowering/slots.hpp"

namespace capstan {

/// One cache line that carries its own notice of arrival: the payload and a tag that says which
/// message of which call it belongs to. The reader polls the tag and finds the payload in the same
/// line, so that a small message costs one cache miss.
struct alignas(64) Packet {
  static constexpr std::size_t payload_bytes = packet_payload_bytes;

  std::byte payload[payload_bytes];
  std::atomic<std::uint64_t> tag;

  bool arrived(std::uint64_t expected) const {
    return tag.load(std::memory_order_acquire) == expected;
  }
  void publish(std::uint64_t value) { tag.store(value, std::memory_order_release); }
};
static_assert(sizeof(Packet) == packet_bytes);

}  // namespace capstan
