// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace capstan::verbs {

/// A message between two ranks beside data.
struct ControlMessage {
  enum class Kind : std::uint32_t {
    ready = 1,  // the sender is connected, and knows that the receiver is
    ask,        // requests the key of piece `piece` of the mirror at the receiver
    key,        // the key of piece `piece` of the mirror at the sender
    goodbye,    // the sender destroys its transport
  };
  Kind kind = Kind::ready;
  std::uint32_t key = 0;
  std::uint64_t piece = 0;

  /// Nothing unless the bytes that a peer has sent are such a message. `pieces` is the number of
  /// pieces of a mirror.
  static std::optional<ControlMessage> decode(std::span<const std::byte> bytes,
                                              std::uint64_t pieces) {
    ControlMessage message;
    if (bytes.size() != sizeof message) return std::nullopt;
    std::memcpy(&message, bytes.data(), sizeof message);
    if (message.kind < Kind::ready || message.kind > Kind::goodbye) return std::nullopt;
    const bool about_piece = message.kind == Kind::ask || message.kind == Kind::key;
    if (about_piece && message.piece >= pieces) return std::nullopt;
    return message;
  }
};

}  // namespace capstan::verbs
