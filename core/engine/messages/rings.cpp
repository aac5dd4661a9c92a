// SPDX-License-Identifier: Apache-2.0
#include "core/engine/messages/rings.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "capstan/types.hpp"
#include "core/engine/control/peers.hpp"

namespace capstan {

/// Precedes the bytes of a ring from this rank to a peer.
struct Rings::Head {
  alignas(64) std::atomic<std::uint64_t> produced;
};
/// Belongs to the ring from a peer to this rank.
struct Rings::Tail {
  alignas(64) std::atomic<std::uint64_t> consumed;
};

// The area holds a tail for the ring from each peer, then head and bytes of the ring to each peer.
void check(const MessageFrame& frame, const Foreign& peer, std::uint64_t ring) {
  using Kind = MessageFrame::Kind;
  const Kind kind = peer.enumerator("the kind of a message", static_cast<std::uint64_t>(frame.kind),
                                    Kind::reading);
  peer.at_most("the type of a message", frame.type, all_data_types().size());
  peer.require(frame.tag >= 0, "the tag of a message", static_cast<std::uint64_t>(frame.tag));
  peer.at_most("the length of a message's frame", frame.payload, ring - sizeof frame);
  const bool whole = kind != Kind::eager || frame.payload == frame.size;
  const bool alone = kind == Kind::eager || kind == Kind::fragment || frame.payload == 0;
  peer.require(whole && alone, "the length of a message's frame", frame.payload);
}

Bytes Rings::tail(Rank peer) const {
  return Bytes{sizeof(Tail) * static_cast<std::uint64_t>(peer.value())};
}
Bytes Rings::head(Rank peer) const {
  return tail(Rank{peers_.count()}) +
         Bytes{(sizeof(Head) + size_) * static_cast<std::uint64_t>(peer.value())};
}
Bytes Rings::bytes(Rank peer) const {
  return head(peer) + Bytes{sizeof(Head)};
}
Bytes Rings::area(int ranks, Bytes size) {
  return Bytes{(sizeof(Tail) + sizeof(Head) + size.value()) * static_cast<std::uint64_t>(ranks)};
}

Rings::Rings(Peers& peers, Bytes offset, Bytes size)
    : peers_(peers),
      offset_(offset),
      size_(size.value()),
      produced_(peers.count()),
      shown_(produced_),
      consumed_(produced_) {}

template <class Object>
Object& Rings::own(Bytes at) const {
  return *reinterpret_cast<Object*>(peers_.own_segment() + (offset_ + at).value());
}
template <class Object>
const Object& Rings::of(Rank peer, Bytes at) const {
  return *reinterpret_cast<const Object*>(peers_.segment(peer) + (offset_ + at).value());
}

bool Rings::write(Rank peer, const MessageFrame& frame, const std::byte* payload) {
  const auto consumed =
      of<Tail>(peer, tail(peers_.self())).consumed.load(std::memory_order_acquire);
  const std::uint64_t used = produced_[peer] - consumed;
  Foreign{peers_.self(), peer}.require(used <= size_, "the count of bytes that it has consumed",
                                       consumed);
  if (size_ - used < sizeof frame + frame.payload) return false;
  put(peer, &frame, sizeof frame);
  put(peer, payload, frame.payload);
  return true;
}

void Rings::put(Rank peer, const void* from, std::uint64_t length) {
  if (length == 0) return;  // `from` may be null
  std::byte* const ring = &own<std::byte>(bytes(peer));
  std::uint64_t& produced = produced_[peer];
  const std::uint64_t begin = produced % size_, first = std::min(length, size_ - begin);
  std::memcpy(ring + begin, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, length - first);
  produced += length;
}

/// Sends a peer on another host the bytes first, then their count.
void Rings::show(Rank peer) {
  auto& produced = own<Head>(head(peer)).produced;
  produced.store(produced_[peer], std::memory_order_release);
  if (!peers_.mapped(peer)) {
    const std::byte* const ring = &own<std::byte>(bytes(peer));
    const std::uint64_t length = produced_[peer] - shown_[peer], begin = shown_[peer] % size_,
                        first = std::min(length, size_ - begin);
    peers_.show(peer, ring + begin, first);
    if (first < length) peers_.show(peer, ring, length - first);
    peers_.show(peer, produced);
  }
  shown_[peer] = produced_[peer];
  peers_.wake(peer);
}

bool Rings::read(Rank peer,
                 const std::function<void(const MessageFrame&, const Payload&)>& handle) {
  std::uint64_t& consumed = consumed_[peer];
  const auto produced =
      of<Head>(peer, head(peers_.self())).produced.load(std::memory_order_acquire);
  if (consumed == produced) return false;
  const Foreign theirs{peers_.self(), peer};
  const std::string_view count = "the count of bytes that it has sent";
  theirs.require(produced - consumed <= size_, count, produced);
  while (consumed < produced) {
    theirs.require(produced - consumed >= sizeof(MessageFrame), count, produced);
    MessageFrame frame;
    range(peer, consumed, sizeof frame).copy_to(reinterpret_cast<std::byte*>(&frame));
    check(frame, theirs, size_);
    const std::uint64_t length = sizeof frame + std::uint64_t{frame.payload};
    theirs.require(length <= produced - consumed, count, produced);
    handle(frame, range(peer, consumed + sizeof frame, frame.payload));
    consumed += length;
  }
  auto& shown = own<Tail>(tail(peer)).consumed;
  shown.store(consumed, std::memory_order_release);
  peers_.show(peer, shown);
  peers_.wake(peer);
  return true;
}

/// A range of the peer's ring to this rank: in two parts where it wraps around.
Payload Rings::range(Rank peer, std::uint64_t at, std::uint64_t length) const {
  const bool is_long = length >= Link::long_read;
  const std::byte* const ring =
      (is_long ? peers_.segment_for_long_reads(peer) : peers_.segment(peer)) +
      (offset_ + bytes(peers_.self())).value();
  const std::uint64_t begin = at % size_, first = std::min(length, size_ - begin);
  return {.first = {ring + begin, first}, .second = {ring, length - first}};
}

}  // namespace capstan
