#include "core/control/peers.hpp"

#include <thread>

namespace capstan {

Peers::Peers(Transport& transport, Transport& bell, const shared::SharedMemory& memory,
             std::vector<int> world_ranks, Rank self)
    : transport_(transport),
      bell_(bell),
      memory_(memory),
      world_ranks_(std::move(world_ranks)),
      self_(self.value()),
      segment_(transport.segment().data()) {
  for (int rank = 0; rank < static_cast<int>(world_ranks_.size()); ++rank) {
    bells_.push_back(&bell.link(Rank{world_ranks_[static_cast<std::size_t>(rank)]}));
    links_.push_back(&transport.link(Rank{rank}));
    if (rank == self_) continue;
    if (links_.back()->mapped)
      mapped_bells_.push_back(bells_.back());
    else
      posted_.push_back(rank);
  }
}

void Peers::push(int peer, const void* begin, std::size_t bytes) {
  const auto offset = static_cast<const std::byte*>(begin) - segment_;
  transport_.push(Rank{peer}, Bytes{static_cast<std::uint64_t>(offset)}, Bytes{bytes});
}

void Peers::wake_all() {
  for (int peer = 0; peer < count(); ++peer)
    if (peer != self_) wake(peer);
}

/// Sends the text of a failure before its kind: a peer that sees the kind sees the whole record.
void Peers::show_end() {
  const Control& own = own_control();
  for (const int peer : posted_) {
    push(peer, &own.finished, sizeof own.finished);
    if (own.abort.kind.load(std::memory_order_relaxed) != 0) {
      push(peer, &own.abort, sizeof own.abort);
      push(peer, &own.abort.kind, sizeof own.abort.kind);
    }
    push(peer, &own.left, sizeof own.left);
  }
  wake_all();
}

std::vector<int> Peers::wait_for_users() {
  std::vector<int> abandoned;
  constexpr std::chrono::milliseconds longest_use{500};
  const auto end = std::chrono::steady_clock::now() + longest_use;
  for (int peer = 0; peer < count(); ++peer) {
    if (peer == self_ || !mapped(peer)) continue;
    const auto is_inside = [&] {
      return control(peer).uses_peer_buffers.load(std::memory_order_seq_cst) != 0 &&
             !transport_.departed(Rank{peer});
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
  for (const int peer : posted_) transport_.detach_sources(Rank{peer});
}

}  // namespace capstan
