// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/peers.hpp"

#include <cstddef>
#include <thread>

namespace capstan {

Peers::Peers(Transport& transport, Transport& bell, const shared::SharedMemory& memory,
             const std::vector<int>& world_ranks, Rank self)
    : transport_(transport),
      bell_(bell),
      memory_(memory),
      world_ranks_(world_ranks),
      self_(self),
      segment_(transport.segment().data()),
      notes_(static_cast<int>(world_ranks.size())) {
  for (std::int32_t rank = 0; rank < world_ranks_.size(); ++rank) {
    const Rank peer{rank};
    bells_.push_back(&bell.link(Rank{world_ranks_[peer]}));
    links_.push_back(&transport.link(peer));
    if (peer == self_) continue;
    others_.push_back(peer);
    if (mapped(peer)) {
      mapped_.push_back(peer);
      mapped_bells_.push_back(bells_[peer]);
    } else {
      posted_.push_back(peer);
    }
  }
}

void Peers::push(Rank peer, const void* begin, std::size_t bytes) {
  const auto offset = static_cast<const std::byte*>(begin) - segment_;
  transport_.push(peer, Bytes{static_cast<std::uint64_t>(offset)}, Bytes{bytes});
}

void Peers::wake_all() {
  for (const Rank peer : others_) wake(peer);
}

/// Sends what a failure says before its kind: a peer that sees the kind sees the whole record.
void Peers::show_end() {
  const Control& own = own_control();
  for (const Rank peer : posted_) {
    push(peer, &own.finished, sizeof own.finished);
    if (own.abort.kind.load(std::memory_order_relaxed) != 0) {
      // The peer reads the rest once it sees the kind, so the rest goes first. The bytes of one
      // push become visible in any order; only an aligned word, as of kind and lost rank, does as a
      // whole.
      static_assert(offsetof(AbortRecord, culprit_count) == 8);
      push(peer, &own.abort.culprit_count, sizeof own.abort - offsetof(AbortRecord, culprit_count));
      push(peer, &own.abort, offsetof(AbortRecord, culprit_count));
    }
    push(peer, &own.left, sizeof own.left);
  }
  wake_all();
}

std::vector<Rank> Peers::wait_for_users() {
  std::vector<Rank> abandoned;
  constexpr std::chrono::milliseconds longest_use{500};
  const auto end = std::chrono::steady_clock::now() + longest_use;
  for (const Rank peer : others_) {
    if (!mapped(peer)) continue;
    const auto is_inside = [&] {
      return control(peer).uses_peer_buffers.load(std::memory_order_seq_cst) != 0 &&
             !transport_.departed(peer);
    };
    bool inside = is_inside();
    while (inside && (transport_.shares_addresses() || std::chrono::steady_clock::now() < end)) {
      std::this_thread::yield();
      inside = is_inside();
    }
    if (inside) abandoned.push_back(peer);
  }
  return abandoned;
}

void Peers::detach_sources() {
  for (const Rank peer : posted_) transport_.detach_sources(peer);
}

}  // namespace capstan
