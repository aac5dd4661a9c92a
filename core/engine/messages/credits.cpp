// SPDX-License-Identifier: Apache-2.0
#include "core/engine/messages/credits.hpp"

#include <algorithm>
#include <atomic>

#include "core/engine/control/peers.hpp"

namespace capstan {

/// The credit that this rank has given back to one peer.
struct Credits::Line {
  alignas(64) std::atomic<std::uint64_t> given;
};

Credits::Credits(Peers& peers, Bytes offset, Bytes limit)
    : peers_(peers),
      offset_(offset),
      limit_(limit.value()),
      share_(limit_ / std::max<std::uint64_t>(1, peers.others().size())),
      taken_(peers.count()),
      seen_(taken_),
      given_(taken_),
      shown_(taken_),
      stored_(taken_) {}

Bytes Credits::area(int ranks) {
  return Bytes{sizeof(Line) * static_cast<std::uint64_t>(ranks)};
}

Credits::Line& Credits::own(Rank peer) const {
  return reinterpret_cast<Line*>(peers_.own_segment() + offset_.value())[peer.value()];
}
const Credits::Line& Credits::of(Rank peer) const {
  return reinterpret_cast<const Line*>(peers_.segment(peer) +
                                       offset_.value())[peers_.self().value()];
}

bool Credits::take(Rank peer, Bytes bytes) {
  const auto fits = [&] { return taken_[peer] - seen_[peer] + bytes.value() <= share_; };
  if (!fits()) {  // only then is the peer's count read, which costs a cache miss
    seen_[peer] = std::min(of(peer).given.load(std::memory_order_relaxed), taken_[peer]);
    if (!fits()) return false;
  }
  taken_[peer] += bytes.value();
  return true;
}

bool Credits::has_room(Rank source, Bytes bytes) const {
  return stored_[source] + bytes.value() <= (source == peers_.self() ? limit_ : share_);
}

/// Peers on other hosts are told now and then: until they know, they offer their messages.
void Credits::give_back(Rank source, Bytes bytes) {
  if (source == peers_.self()) return;
  auto& given = own(source).given;
  given.store(given_[source] += bytes.value(), std::memory_order_relaxed);
  if (peers_.mapped(source) || given_[source] - shown_[source] <= share_ / 4) return;
  shown_[source] = given_[source];
  peers_.show(source, given);
  peers_.wake(source);
}

}  // namespace capstan
