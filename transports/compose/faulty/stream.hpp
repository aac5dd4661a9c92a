// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "transports/compose/faulty/fault_dice.hpp"
#include "transports/transport.hpp"

namespace capstan::faulty {

/// Layout of the inner transport's segment: the visible segment, then a line of cursors per peer,
/// then a ring per peer with the stream of pushes to it.
struct StreamLayout {
  Bytes segment;
  int ranks;

  static constexpr std::uint64_t line = 64;
  static constexpr std::uint64_t ring_size = std::uint64_t{1} << 20;

  std::uint64_t cursors(Rank peer) const { return shown() + at(peer) * line; }
  std::uint64_t ring(Rank peer) const { return shown() + all() * line + at(peer) * ring_size; }
  Bytes total() const { return Bytes{shown() + all() * (line + ring_size)}; }

 private:
  static std::uint64_t at(Rank peer) { return static_cast<std::uint64_t>(peer.value()); }
  std::uint64_t all() const { return static_cast<std::uint64_t>(ranks); }
  std::uint64_t shown() const { return (segment.value() + line - 1) / line * line; }
};

/// One rank's end of the two streams of pushes between it and a peer. A push is a header, followed
/// by its bytes unless it refers to the sender's segment.
class StreamEnd {
 public:
  StreamEnd(Transport& inner, const StreamLayout& layout, Rank self, Rank peer)
      : inner_(&inner), layout_(layout), self_(self), peer_(peer) {}

 protected:
  /// The words of the line of cursors. Positions in streams only grow.
  enum class Cursor : std::uint64_t { written, taken, broken };

  struct Header {
    std::uint64_t offset = 0;
    std::uint64_t length : 63 = 0;
    std::uint64_t refers : 1 = 0;
  };

  std::uint64_t peer_cursor(Cursor cursor) const;
  void publish(Cursor cursor, std::uint64_t value);

  /// Bytes that a push occupies in the stream, in whole words.
  static std::uint64_t size_of(const Header& header);
  /// Copies from the peer's ring; copies to this rank's ring and pushes it.
  void read(std::uint64_t position, void* to, std::uint64_t length) const;
  void write(std::uint64_t position, const void* from, std::uint64_t length);

  Transport* inner_;
  StreamLayout layout_;
  Rank self_, peer_;
};

/// Sends pushes to one peer.
class Outbound : public StreamEnd {
 public:
  using StreamEnd::StreamEnd;

  /// Queues bytes of this rank's segment (`from` is null) or from elsewhere. Copies short ones now.
  void push(Bytes offset, const void* from, Bytes length);
  /// Lets everything pushed so far be sent.
  void release() { released_ = posts_.size(); }
  /// Sends as much as there is room for. Returns whether that was anything.
  bool pump();
  /// Whether all memory that was released may change again.
  bool settled() const { return released_ == 0 && peer_cursor(Cursor::taken) >= last_reference_; }
  bool unsent() const { return released_ > 0; }
  /// Copies unsent bytes from elsewhere.
  void detach();
  /// Drops everything queued and all future pushes, as the peer no longer listens.
  void abandon();

 private:
  enum class Kind { copied, of_segment, elsewhere };
  struct Post {
    Kind kind;
    std::uint64_t offset, length;
    const std::byte* from;  // elsewhere
    std::array<std::byte, Transport::snapshot.value()> copy;
    std::unique_ptr<std::byte[]> saved;  // what `from` points to then
  };
  bool send_some(Post& post);

  std::deque<Post> posts_;
  std::size_t released_ = 0;          // number of posts that may be sent
  std::uint64_t written_ = 0;         // position in the stream
  std::uint64_t last_reference_ = 0;  // where the last push that refers to the segment ends
  bool abandoned_ = false;
};

/// Receives the pushes of one peer, each with the faults that the dice decide.
class Inbound : public StreamEnd {
 public:
  Inbound(Transport& inner, const StreamLayout& layout, Rank self, Rank peer, const FaultPlan& plan)
      : StreamEnd(inner, layout, self, peer), dice_(plan, self, peer) {}

  /// Whether something has arrived that is not visible yet.
  bool has_news() const { return !broken_ && peer_cursor(Cursor::written) > taken_; }
  /// Whether a fault skips this stream for one call, as other streams have news, too.
  bool skipped();
  /// One call of progress(): makes visible in the mirror what is due. Returns whether a push was
  /// received and reported to the peer, which then has to be woken.
  bool take(std::byte* mirror);

  /// Breaks the connection when the plan says so or the peer has. Returns whether it did so now.
  bool break_if_due();
  const std::optional<std::string>& broken() const { return broken_; }

 private:
  /// Makes bytes [begin, end) of the next push visible.
  void show(std::byte* mirror, std::uint64_t begin, std::uint64_t end) const;
  /// Counts one call down. Returns whether none was left.
  static bool passed(std::uint64_t& calls) {
    if (calls == 0) return true;
    --calls;
    return false;
  }

  FaultDice dice_;
  std::uint64_t taken_ = 0;   // position in the stream
  std::uint64_t pushes_ = 0;  // taken in
  bool skipped_ = false;      // already, with the push that is next
  bool opened_ = false;       // whether header_ and delivery_ are of the push that is next
  Header header_;
  Delivery delivery_;
  std::optional<std::string> broken_;
};

}  // namespace capstan::faulty
