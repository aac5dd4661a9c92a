#pragma once

#include <functional>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/p2p/frame.hpp"

namespace capstan {

class Peers;

/// A ring of bytes from each rank to each other, for frames. Bytes and their number lie in the
/// sender's segment, how many have been read in the receiver's. Used by one thread at a time.
class Rings {
 public:
  /// The area starts at `offset` in every rank's segment; a ring has `size` bytes.
  Rings(Peers& peers, Bytes offset, Bytes size);

  static Bytes area(int ranks, Bytes size);

  /// Puts a frame and what follows it into the ring to a peer, which sees it after show(). False,
  /// and nothing else, if there is no room yet.
  bool write(int peer, const Frame& frame, const std::byte* payload);
  void show(int peer);

  /// Takes all frames out that have come from a peer; false if there are none. Throws Aborted if
  /// what is there cannot have been sent.
  bool read(int peer, const std::function<void(const Frame&, const Payload&)>& take);

 private:
  struct Head;
  struct Tail;

  Bytes tail(int peer) const;
  Bytes head(int peer) const;
  Bytes bytes(int peer) const;
  /// What is at an offset of the area, of the own one or of a peer's.
  template <class What>
  What& own(Bytes at) const;
  template <class What>
  const What& of(int peer, Bytes at) const;

  void put(int peer, const void* from, std::uint64_t length);
  Payload piece(int peer, std::uint64_t at, std::uint64_t length) const;

  Peers& peers_;
  const Bytes offset_;
  const std::uint64_t size_;
  std::vector<std::uint64_t> produced_, shown_, consumed_;  // bytes, by peer
};

}  // namespace capstan
