// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "capstan/quantity.hpp"
#include "core/platform/net/message.hpp"

/// Connected ranks send each other frames, each a header and a payload. All numbers are in the byte
/// order of the machine, as are the segments' contents. The handshake refuses a peer with another
/// byte order.
namespace capstan::tcp {

/// `length` bytes follow, for `offset` of the sender's segment.
struct FrameHeader {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const FrameHeader&) const = default;
};

/// The last frame of a rank that destroys its transport. It has no payload.
inline constexpr FrameHeader goodbye{.offset = ~std::uint64_t{0}, .length = 0};

/// Cuts the bytes from a peer into pieces of payload. Pure: bytes in, events out.
///
/// Payload is handed out in whole words of the segment (8 bytes, aligned) as far as frames have
/// them, so that no word is ever seen in parts. Bytes that cannot be handed out yet stay in the
/// input: fewer than `most_left` bytes, to be offered again in front of the next input.
class FrameDecoder {
 public:
  static constexpr std::size_t word = 8;
  static constexpr std::size_t most_left = sizeof(FrameHeader);

  struct Piece {
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };
  struct Goodbye {};
  struct NeedsMore {};
  using Event = std::variant<NeedsMore, Piece, Goodbye>;

  /// `segment` is the size of the sender's segment, beyond which nothing may be written.
  explicit FrameDecoder(Bytes segment) : segment_(segment.value()) {}

  /// The next event, whose bytes are taken off the front of `input`. Throws MalformedMessage; the
  /// decoder is unusable after that.
  Event next(std::span<const std::byte>& input);

  /// The payload of the current frame that is still to come, and its offset in the segment.
  FrameHeader outstanding() const { return current_; }
  /// Records that the first `count` outstanding bytes have been put into place by other means.
  void skip(std::uint64_t count);
  /// The number of `available` bytes that may be put into place without cutting a word.
  std::uint64_t whole_words(std::uint64_t available) const;

 private:
  bool start_frame(std::span<const std::byte>& input);

  std::uint64_t segment_;
  FrameHeader current_;
};

}  // namespace capstan::tcp
