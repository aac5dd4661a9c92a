#include "core/p2p/rings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "capstan/error.hpp"
#include "core/control/peers.hpp"

namespace capstan {

/// Of a ring of this rank's, before its bytes.
struct Rings::Head {
  alignas(64) std::atomic<std::uint64_t> produced;
};
/// Of a peer's ring to this rank.
struct Rings::Tail {
  alignas(64) std::atomic<std::uint64_t> consumed;
};

// First how much has been read of each peer's ring, then the own ring to each peer.
Bytes Rings::tail(int peer) const {
  return Bytes{sizeof(Tail) * static_cast<std::uint64_t>(peer)};
}
Bytes Rings::head(int peer) const {
  return tail(peers_.count()) + Bytes{(sizeof(Head) + size_) * static_cast<std::uint64_t>(peer)};
}
Bytes Rings::bytes(int peer) const {
  return head(peer) + Bytes{sizeof(Head)};
}
Bytes Rings::area(int ranks, Bytes size) {
  return Bytes{(sizeof(Tail) + sizeof(Head) + size.value()) * static_cast<std::uint64_t>(ranks)};
}

Rings::Rings(Peers& peers, Bytes offset, Bytes size)
    : peers_(peers),
      offset_(offset),
      size_(size.value()),
      produced_(static_cast<std::size_t>(peers.count())),
      shown_(produced_),
      consumed_(produced_) {}

template <class What>
What& Rings::own(Bytes at) const {
  return *reinterpret_cast<What*>(peers_.own_segment() + (offset_ + at).value());
}
template <class What>
const What& Rings::of(int peer, Bytes at) const {
  return *reinterpret_cast<const What*>(peers_.segment(peer) + (offset_ + at).value());
}

bool Rings::write(int peer, const Frame& frame, const std::byte* payload) {
  const auto consumed =
      of<Tail>(peer, tail(peers_.self())).consumed.load(std::memory_order_acquire);
  const std::uint64_t used = produced_[static_cast<std::size_t>(peer)] - consumed;
  if (size_ - used < sizeof frame + frame.payload) return false;
  put(peer, &frame, sizeof frame);
  put(peer, payload, frame.payload);
  return true;
}

void Rings::put(int peer, const void* from, std::uint64_t length) {
  if (length == 0) return;  // there may be no memory at all
  std::byte* const ring = &own<std::byte>(bytes(peer));
  std::uint64_t& produced = produced_[static_cast<std::size_t>(peer)];
  const std::uint64_t begin = produced % size_, first = std::min(length, size_ - begin);
  std::memcpy(ring + begin, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, length - first);
  produced += length;
}

/// To a peer on another host: the bytes, then their number.
void Rings::show(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  auto& produced = own<Head>(head(peer)).produced;
  produced.store(produced_[p], std::memory_order_release);
  if (!peers_.mapped(peer)) {
    const std::byte* const ring = &own<std::byte>(bytes(peer));
    const std::uint64_t length = produced_[p] - shown_[p], begin = shown_[p] % size_,
                        first = std::min(length, size_ - begin);
    peers_.show(peer, ring + begin, first);
    if (first < length) peers_.show(peer, ring, length - first);
    peers_.show(peer, produced);
  }
  shown_[p] = produced_[p];
  peers_.wake(peer);
}

bool Rings::read(int peer, const std::function<void(const Frame&, const Payload&)>& take) {
  std::uint64_t& consumed = consumed_[static_cast<std::size_t>(peer)];
  const auto produced =
      of<Head>(peer, head(peers_.self())).produced.load(std::memory_order_acquire);
  if (consumed == produced) return false;
  const auto require = [&](bool possible) {
    if (!possible)
      throw Aborted(fmt::format(
          "rank {} found a message of rank {} that cannot be: its memory has been overwritten",
          peers_.self(), peer));
  };
  require(produced - consumed <= size_);
  while (consumed < produced) {
    require(produced - consumed >= sizeof(Frame));
    Frame frame;
    piece(peer, consumed, sizeof frame).copy_to(reinterpret_cast<std::byte*>(&frame));
    const std::uint64_t length = sizeof frame + std::uint64_t{frame.payload};
    require(length <= produced - consumed);
    require(frame.kind != Frame::Kind::eager || frame.payload == frame.size);
    take(frame, piece(peer, consumed + sizeof frame, frame.payload));
    consumed += length;
  }
  auto& shown = own<Tail>(tail(peer)).consumed;
  shown.store(consumed, std::memory_order_release);
  peers_.show(peer, shown);
  peers_.wake(peer);
  return true;
}

/// Of the peer's ring to this rank, wherever it wraps.
Payload Rings::piece(int peer, std::uint64_t at, std::uint64_t length) const {
  const bool takes = length >= Link::long_read;
  const std::byte* const ring =
      (takes ? peers_.segment_for_long_reads(peer) : peers_.segment(peer)) +
      (offset_ + bytes(peers_.self())).value();
  const std::uint64_t begin = at % size_, first = std::min(length, size_ - begin);
  return {.first = {ring + begin, first}, .second = {ring, length - first}};
}

}  // namespace capstan
