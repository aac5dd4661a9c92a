// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace capstan::multirail {

/// A range to be pushed, and its source. Null: the same offset of this rank's segment.
struct PushedRange {
  Bytes offset, length;
  const std::byte* from = nullptr;

  /// The piece for rail `rail` of `rails`. Cuts are at multiples of a page of the segment.
  PushedRange piece(int rail, int rails) const;
  void push_to(Transport& rail, Rank peer) const;
};

/// Counters behind each segment, visible in the peer's mirror of it.
struct PieceCounters {
  std::uint64_t begin;  // offset of the counters

  static constexpr std::uint64_t line = 64;
  static PieceCounters behind(Bytes segment) {
    return {(segment.value() + line - 1) / line * line};
  }
  Bytes end() const { return Bytes{begin + 2 * line}; }

  /// Offset of the number of ranges cut so far. Each rail pushes its own after each piece.
  Bytes count_of(int rail) const {
    return Bytes{begin + static_cast<std::uint64_t>(rail) * sizeof(std::uint64_t)};
  }
  /// Offset of the number of the peer's ranges that have arrived with all their pieces.
  Bytes arrived() const { return Bytes{begin + line}; }
};

/// Pushes to one peer that wait for earlier pieces to arrive.
class HeldPushes {
 public:
  bool empty() const { return ranges_.empty(); }
  /// Short ranges are copied, as Transport::push says.
  void add(const PushedRange& range, std::span<const std::byte> segment);
  /// Copies the sources of all pushes that wait, so that the sources may change.
  void save(std::span<const std::byte> segment);
  /// Pushes everything that waits, in order.
  void release(Transport& rail, Rank peer);
  /// Whether there are copies, which have to live until the rail has read what release() pushed.
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

/// The state of the exchange with one peer.
struct PeerState {
  Rank peer;
  const std::byte* mirror;
  std::uint64_t cut = 0;           // ranges pushed in pieces
  std::uint64_t acknowledged = 0;  // ranges of the peer that were acknowledged to it
  HeldPushes held{};
  std::uint64_t waited = 0;  // calls of progress() since the peer last acknowledged all
  bool gone = false;
  std::atomic<bool> pieces_to_wake{false};  // pushed since the last wake

  std::uint64_t word(Bytes offset) const;
  /// Whether the peer has received all pieces, or has departed.
  bool is_clear(const PieceCounters& counters) const {
    return gone || word(counters.arrived()) >= cut;
  }
  /// Number of the peer's ranges that have arrived with all their pieces.
  std::uint64_t arrived(const PieceCounters& counters, int rails) const;
};

}  // namespace capstan::multirail
