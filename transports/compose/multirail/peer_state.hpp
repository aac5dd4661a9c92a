#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace capstan::multirail {

/// A range to be pushed, and where its bytes are; null: at the same place of the segment.
struct PushedRange {
  Bytes offset, length;
  const std::byte* from = nullptr;

  /// The piece of it that rail `rail` of `rails` takes. Cut at multiples of a page of the segment.
  PushedRange piece(int rail, int rails) const;
  void push_to(Transport& rail, Rank peer) const;
};

/// What is behind each segment, for the peer whose mirror it is.
struct PieceCounters {
  std::uint64_t begin;  // where it is

  static constexpr std::uint64_t line = 64;
  static PieceCounters behind(Bytes segment) {
    return {(segment.value() + line - 1) / line * line};
  }
  Bytes end() const { return Bytes{begin + 2 * line}; }

  /// How many ranges were cut into pieces so far: pushed over each rail after its piece.
  Bytes count_of(int rail) const {
    return Bytes{begin + static_cast<std::uint64_t>(rail) * sizeof(std::uint64_t)};
  }
  /// How many of the peer's have come, in all their pieces.
  Bytes arrived() const { return Bytes{begin + line}; }
};

/// Pushes to one peer that wait for pieces that were pushed before them.
class HeldPushes {
 public:
  bool empty() const { return ranges_.empty(); }
  /// Short ranges are copied, as Transport::push says.
  void add(const PushedRange& range, std::span<const std::byte> segment);
  /// Copies what is to be read.
  void save(std::span<const std::byte> segment);
  /// Pushes all in order.
  void release(Transport& rail, Rank peer);
  /// Copies live until what release() has pushed has been read.
  bool has_copies() const { return !saved_.empty(); }
  void forget() { saved_.clear(); }

 private:
  struct Entry {
    PushedRange range;
    bool copied;
    std::array<std::byte, Transport::snapshot.value()> copy;
  };
  std::deque<Entry> ranges_;
  std::vector<std::unique_ptr<std::byte[]>> saved_;
};

/// What this rank has to do with a peer.
struct PeerState {
  Rank peer;
  const std::byte* mirror;
  std::uint64_t cut = 0;           // ranges pushed in pieces
  std::uint64_t acknowledged = 0;  // of the peer's: what it was told to have come
  HeldPushes held{};
  std::uint64_t waited = 0;  // calls of progress() for the peer to tell of pieces
  bool gone = false;
  std::atomic<bool> pieces_to_wake{false};  // pushed since the last wake

  std::uint64_t word(Bytes offset) const;
  /// Whether the peer has all the pieces, or is not there to get any.
  bool is_clear(const PieceCounters& counters) const {
    return gone || word(counters.arrived()) >= cut;
  }
  /// How many ranges of the peer's have come whole.
  std::uint64_t arrived(const PieceCounters& counters, int rails) const;
};

}  // namespace capstan::multirail
