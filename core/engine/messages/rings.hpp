// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "capstan/by_rank.hpp"
#include "capstan/quantity.hpp"
#include "core/engine/messages/message_frame.hpp"

namespace capstan {

class Peers;

/// Two ring buffers from each rank to each other: one of lines, one frame each, and one of the
/// payloads that do not fit into their frame's line. Both are in the sender's segment, what has
/// been consumed of them is in the receiver's. A line begins with its number, so that who sees the
/// number has the frame, and a short message, with it: one line crosses between the cores. Used by
/// one thread at a time.
class Rings {
 public:
  /// The area starts at `offset` in every rank's segment; a ring of payloads has `size` bytes, a
  /// multiple of a cache line.
  Rings(Peers& peers, Bytes offset, Bytes size);

  static Bytes area(int ranks, Bytes size);
  /// The frames that a ring of lines holds.
  static std::uint64_t lines(Bytes size) { return std::max<std::uint64_t>(8, size.value() / 1024); }
  /// The longest payload that lies in the line of an eager frame.
  static constexpr std::uint32_t short_payload = 32;

  /// Writes a frame and its payload for a peer, which sees them after show(). `streams`: past the
  /// cache. False, and nothing is written, if there is no room yet.
  bool write(Rank peer, const MessageFrame& frame, const std::byte* payload, bool streams = false);
  void show(Rank peer);
  /// Whether so many frames with payloads of this length together would fit.
  bool has_room(Rank peer, std::uint64_t payload, std::uint64_t frames = 1);

  /// Takes the next frame that a peer has sent; false if there is none. The payload is valid until
  /// free(), which gives back the room of all frames taken. Throws Aborted if the rings hold what
  /// cannot have been sent.
  bool take(Rank peer, MessageFrame& frame, Payload& payload);
  void free(Rank peer);

 private:
  struct Line;
  struct Head;
  struct Tail;
  /// The lines and bytes that have passed through the rings between two ranks.
  struct Count {
    std::uint64_t lines = 0, bytes = 0;
  };

  Bytes tail(Rank peer) const;
  Bytes head(Rank peer) const;
  Bytes bytes(Rank peer) const;
  /// The object at an offset of the area: of this rank's, or of a peer's.
  template <class Object>
  Object& own(Bytes at) const;
  template <class Object>
  const Object& of(Rank peer, Bytes at) const;

  bool has_arrived(Rank peer, const Line& line) const;
  void put(Rank peer, const std::byte* from, std::uint64_t length, bool streams);
  Payload range(Rank peer, std::uint64_t at, std::uint64_t length) const;
  void show_range(Rank peer, const std::byte* ring, std::uint64_t size, std::uint64_t from,
                  std::uint64_t to);

  Peers& peers_;
  const Bytes offset_;
  const std::uint64_t size_, lines_;
  ByRank<Count> produced_, shown_;  // of the rings to each peer
  ByRank<Count> freed_;             // of them, when this rank looked last
  ByRank<Count> consumed_;          // of the rings from each peer
};

}  // namespace capstan
