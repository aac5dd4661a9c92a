// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "capstan/by_rank.hpp"
#include "capstan/quantity.hpp"
#include "core/engine/messages/message_frame.hpp"

namespace capstan {

class Peers;

/// A ring buffer from each rank to each other, for frames. The bytes and the count of bytes
/// produced are in the sender's segment, the count of bytes consumed is in the receiver's. Used by
/// one thread at a time.
class Rings {
 public:
  /// The area starts at `offset` in every rank's segment; a ring has `size` bytes.
  Rings(Peers& peers, Bytes offset, Bytes size);

  static Bytes area(int ranks, Bytes size);

  /// Writes a frame and its payload to the ring to a peer, which sees them after show(). False, and
  /// nothing is written, if there is no room yet.
  bool write(Rank peer, const MessageFrame& frame, const std::byte* payload);
  void show(Rank peer);

  /// Consumes all frames that a peer has sent, and calls `handle` with each; false if there are
  /// none. Throws Aborted if the ring holds what cannot have been sent.
  bool read(Rank peer, const std::function<void(const MessageFrame&, const Payload&)>& handle);

 private:
  struct Head;
  struct Tail;

  Bytes tail(Rank peer) const;
  Bytes head(Rank peer) const;
  Bytes bytes(Rank peer) const;
  /// The object at an offset of the area: of this rank's, or of a peer's.
  template <class Object>
  Object& own(Bytes at) const;
  template <class Object>
  const Object& of(Rank peer, Bytes at) const;

  void put(Rank peer, const void* from, std::uint64_t length);
  Payload range(Rank peer, std::uint64_t at, std::uint64_t length) const;

  Peers& peers_;
  const Bytes offset_;
  const std::uint64_t size_;
  ByRank<std::uint64_t> produced_, shown_, consumed_;  // bytes so far, by peer
};

}  // namespace capstan
