// SPDX-License-Identifier: Apache-2.0
#include "core/engine/messages/rings.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "capstan/types.hpp"
#include "core/engine/control/peers.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t cache_line = 64;

/// Payloads begin on lines of their own: a line that is being read is not being written.
constexpr std::uint64_t padded(std::uint64_t length) {
  return (length + cache_line - 1) / cache_line * cache_line;
}

/// Whether the payload lies in the frame's line.
constexpr bool is_short(const MessageFrame& frame) {
  return frame.kind == MessageFrame::Kind::eager && frame.payload <= Rings::short_payload;
}

}  // namespace

/// A frame. A short payload takes the place of what only offers have, and of what is left.
struct Rings::Line {
  static constexpr std::size_t short_begin = offsetof(MessageFrame, id);

  alignas(cache_line) std::atomic<std::uint64_t> number;  // 1 for the first line of a ring
  std::byte bytes[short_begin + short_payload];           // of the frame, and more
};

/// Precedes the rings from this rank to a peer. For peers that have not mapped this segment: their
/// copies of a line need not be whole when its number is there.
struct Rings::Head {
  alignas(cache_line) std::atomic<std::uint64_t> lines;
};
/// Belongs to the rings from a peer to this rank: what has been consumed.
struct Rings::Tail {
  alignas(cache_line) std::atomic<std::uint64_t> lines;
  std::atomic<std::uint64_t> bytes;
};

void check(const MessageFrame& frame, const Foreign& peer, std::uint64_t ring) {
  using Kind = MessageFrame::Kind;
  const Kind kind =
      peer.enumerator("the kind of a message", static_cast<std::uint64_t>(frame.kind), Kind::timed);
  peer.require(frame.type().is_valid(), "the type of a message", frame.type_number);
  peer.require(frame.tag >= 0, "the tag of a message", static_cast<std::uint64_t>(frame.tag));
  peer.at_most("the length of a message's frame", frame.payload, ring);
  const bool fits = kind == Kind::eager   ? frame.payload == frame.size
                    : kind == Kind::begun ? frame.payload < frame.size
                                          : kind == Kind::fragment || frame.payload == 0;
  peer.require(fits, "the length of a message's frame", frame.payload);
}

// The area holds a tail for the rings from each peer, then head, lines and payloads to each peer.
Bytes Rings::tail(Rank peer) const {
  return Bytes{sizeof(Tail) * static_cast<std::uint64_t>(peer.value())};
}
Bytes Rings::head(Rank peer) const {
  return tail(Rank{peers_.count()}) + Bytes{(sizeof(Head) + sizeof(Line) * lines_ + size_) *
                                            static_cast<std::uint64_t>(peer.value())};
}
Bytes Rings::bytes(Rank peer) const {
  return head(peer) + Bytes{sizeof(Head) + sizeof(Line) * lines_};
}
Bytes Rings::area(int ranks, Bytes size) {
  return Bytes{(sizeof(Tail) + sizeof(Head) + sizeof(Line) * lines(size) + size.value()) *
               static_cast<std::uint64_t>(ranks)};
}

Rings::Rings(Peers& peers, Bytes offset, Bytes size)
    : peers_(peers),
      offset_(offset),
      size_(size.value()),
      lines_(lines(size)),
      produced_(peers.count()),
      shown_(produced_),
      freed_(produced_),
      consumed_(produced_) {}

template <class Object>
Object& Rings::own(Bytes at) const {
  return *reinterpret_cast<Object*>(peers_.own_segment() + (offset_ + at).value());
}
template <class Object>
const Object& Rings::of(Rank peer, Bytes at) const {
  return *reinterpret_cast<const Object*>(peers_.segment(peer) + (offset_ + at).value());
}

bool Rings::write(Rank peer, const MessageFrame& frame, const std::byte* payload, bool streams) {
  const bool in_line = is_short(frame);
  const std::uint64_t length = in_line ? 0 : frame.payload;
  if (!has_room(peer, length)) return false;
  put(peer, payload, length, streams);
  const std::uint64_t before = produced_[peer].lines++;
  Line& line = (&own<Line>(head(peer) + Bytes{sizeof(Head)}))[before % lines_];
  std::memcpy(line.bytes, &frame, in_line ? Line::short_begin : sizeof frame);
  if (in_line && frame.payload > 0)  // `payload` may be null
    std::memcpy(line.bytes + Line::short_begin, payload, frame.payload);
  line.number.store(before + 1, std::memory_order_release);
  return true;
}

/// Looks what the peer has consumed only when there seems to be no room: that costs a cache miss.
bool Rings::has_room(Rank peer, std::uint64_t payload, std::uint64_t frames) {
  const Count& produced = produced_[peer];
  Count& freed = freed_[peer];
  const auto fits = [&] {
    return produced.lines - freed.lines + frames <= lines_ &&
           size_ - (produced.bytes - freed.bytes) >= padded(payload);
  };
  if (fits()) return true;
  const Tail& theirs = of<Tail>(peer, tail(peers_.self()));
  const Count now{theirs.lines.load(std::memory_order_acquire),
                  theirs.bytes.load(std::memory_order_acquire)};
  const Foreign foreign{peers_.self(), peer};
  foreign.require(produced.lines - now.lines <= lines_, "the count of frames that it has consumed",
                  now.lines);
  foreign.require(produced.bytes - now.bytes <= size_, "the count of bytes that it has consumed",
                  now.bytes);
  freed = now;
  return fits();
}

void Rings::put(Rank peer, const std::byte* from, std::uint64_t length, bool streams) {
  if (length == 0) return;  // `from` may be null
  std::byte* const ring = &own<std::byte>(bytes(peer));
  std::uint64_t& produced = produced_[peer].bytes;
  const std::uint64_t begin = produced % size_, first = std::min(length, size_ - begin);
  if (streams) {
    kernels::copy(ring + begin, from, first, true);
    kernels::copy(ring, from + first, length - first, true);
  } else {
    std::memcpy(ring + begin, from, first);
    std::memcpy(ring, from + first, length - first);
  }
  produced += padded(length);
}

/// Sends a peer on another host payloads and lines first, then their count.
void Rings::show(Rank peer) {
  Count& shown = shown_[peer];
  const Count& produced = produced_[peer];
  if (!peers_.mapped(peer)) {
    auto& head = own<Head>(this->head(peer)).lines;
    head.store(produced.lines, std::memory_order_release);
    show_range(peer, &own<std::byte>(bytes(peer)), size_, shown.bytes, produced.bytes);
    show_range(peer, &own<std::byte>(this->head(peer) + Bytes{sizeof(Head)}), lines_ * sizeof(Line),
               shown.lines * sizeof(Line), produced.lines * sizeof(Line));
    peers_.show(peer, head);
  }
  shown = produced;
  peers_.wake(peer);
}

/// Shows what has been written to a ring since `from`.
void Rings::show_range(Rank peer, const std::byte* ring, std::uint64_t size, std::uint64_t from,
                       std::uint64_t to) {
  const std::uint64_t length = to - from, begin = from % size,
                      first = std::min(length, size - begin);
  if (first > 0) peers_.show(peer, ring + begin, first);
  if (first < length) peers_.show(peer, ring, length - first);
}

bool Rings::has_arrived(Rank peer, const Line& line) const {
  const std::uint64_t consumed = consumed_[peer].lines;
  const bool mapped = peers_.mapped(peer);
  const std::uint64_t sent =
      mapped ? line.number.load(std::memory_order_acquire)
             : of<Head>(peer, head(peers_.self())).lines.load(std::memory_order_acquire);
  if (sent <= consumed) return false;  // the number of a line's last use is lower
  Foreign{peers_.self(), peer}.require(sent - consumed <= (mapped ? 1 : lines_),
                                       "the count of frames that it has sent", sent);
  return true;
}

bool Rings::take(Rank peer, MessageFrame& frame, Payload& payload) {
  Count& consumed = consumed_[peer];
  const Line* const lines = &of<Line>(peer, head(peers_.self()) + Bytes{sizeof(Head)});
  const Line& line = lines[consumed.lines % lines_];
  if (!has_arrived(peer, line)) return false;
  std::memcpy(&frame, line.bytes, sizeof frame);
  check(frame, Foreign{peers_.self(), peer}, size_);
  ++consumed.lines;
  if (is_short(frame)) {
    payload = {.first = {line.bytes + Line::short_begin, frame.payload}};
    frame.id = frame.address = frame.memory = 0;
    return true;
  }
  payload = range(peer, consumed.bytes, frame.payload);
  consumed.bytes += padded(frame.payload);
  return true;
}

void Rings::free(Rank peer) {
  Tail& shown = own<Tail>(tail(peer));
  shown.lines.store(consumed_[peer].lines, std::memory_order_release);
  shown.bytes.store(consumed_[peer].bytes, std::memory_order_release);
  peers_.show(peer, shown);
  peers_.wake(peer);
}

/// A range of the peer's payloads to this rank: in two parts where it wraps around.
Payload Rings::range(Rank peer, std::uint64_t at, std::uint64_t length) const {
  const bool is_long = length >= Link::long_read;
  const std::byte* const ring =
      (is_long ? peers_.segment_for_long_reads(peer) : peers_.segment(peer)) +
      (offset_ + bytes(peers_.self())).value();
  const std::uint64_t begin = at % size_, first = std::min(length, size_ - begin);
  return {.first = {ring + begin, first}, .second = {ring, length - first}};
}

}  // namespace capstan
