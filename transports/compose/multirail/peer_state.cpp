// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/multirail/peer_state.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::multirail {

PushedRange PushedRange::piece(int rail, int rails) const {
  constexpr std::uint64_t page = 4096;
  const auto cut = [&](int n) {
    if (n == rails) return offset.value() + length.value();
    const std::uint64_t whole = length.value() / static_cast<std::uint64_t>(rails);
    const std::uint64_t at = offset.value() + whole * static_cast<std::uint64_t>(n);
    return n == 0 ? offset.value() : at / page * page;
  };
  const std::uint64_t begin = cut(rail), end = cut(rail + 1);
  return {Bytes{begin}, Bytes{end - begin}, from ? from + (begin - offset.value()) : nullptr};
}

void PushedRange::push_to(Transport& rail, Rank peer) const {
  from ? rail.push_from(peer, offset, from, length) : rail.push(peer, offset, length);
}

void HeldPushes::add(const PushedRange& range, std::span<const std::byte> segment) {
  Entry& entry = ranges_.emplace_back(range, range.length <= Transport::snapshot);
  if (!entry.copied) return;
  const std::byte* from = range.from ? range.from : segment.data() + range.offset.value();
  std::memcpy(entry.copy.data(), from, static_cast<std::size_t>(range.length.value()));
  entry.range.from = entry.copy.data();  // entries of a deque stay where they are
}

void HeldPushes::save(std::span<const std::byte> segment) {
  for (Entry& entry : ranges_) {
    if (entry.copied) continue;
    PushedRange& range = entry.range;
    const auto size = static_cast<std::size_t>(range.length.value());
    const std::byte* from = range.from ? range.from : segment.data() + range.offset.value();
    saved_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    std::memcpy(saved_.back().get(), from, size);
    range.from = saved_.back().get();
    entry.copied = true;
  }
}

void HeldPushes::release(Transport& rail, Rank peer) {
  for (; !ranges_.empty(); ranges_.pop_front()) ranges_.front().range.push_to(rail, peer);
}

std::uint64_t PeerState::word(Bytes offset) const {
  auto* word = reinterpret_cast<const std::uint64_t*>(mirror + offset.value());
  // C++20 has no atomic_ref to const; nothing is written through this one.
  return std::atomic_ref{*const_cast<std::uint64_t*>(word)}.load(std::memory_order_acquire);
}

std::uint64_t PeerState::arrived(const PieceCounters& counters, int rails) const {
  std::uint64_t least = word(counters.count_of(rails - 1));
  if (least == acknowledged) return least;  // the usual case
  for (int rail = 0; rail < rails - 1; ++rail)
    least = std::min(least, word(counters.count_of(rail)));
  return least;
}

}  // namespace capstan::multirail
