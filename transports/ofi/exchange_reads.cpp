// SPDX-License-Identifier: Apache-2.0

// How memory is exposed to peers, and how theirs is read.

#include <fmt/format.h>

#include <thread>

#include "capstan/error.hpp"
#include "transports/ofi/exchange.hpp"

namespace capstan::ofi {

CallerMemory::Keys Exchange::expose(Rank rank, const void* data, Bytes size, MemoryKind kind) {
  const Peer* peer = peers_[rank].get();
  if (!rules_.reads || !peer || peer->gone()) return nullptr;
  return memory_.expose(data, size, kind);
}

std::shared_ptr<RemoteRead> Exchange::start_read(Rank rank, std::uint64_t address,
                                                 std::uint64_t key, void* to, Bytes size,
                                                 MemoryKind kind) {
  Peer* const peer = peers_[rank].get();
  if (!rules_.reads || !peer) return nullptr;
  // Without an endpoint nothing can be registered any more.
  auto keys =
      peer->gone() ? std::optional<CallerMemory::Keys>{nullptr} : memory_.target(to, size, kind);
  if (!keys) return nullptr;
  auto read = peer->reader.start({.address = address, .key = key - 1}, static_cast<std::byte*>(to),
                                 size, std::move(*keys));
  if (peer->gone()) {
    peer->reader.abandon();
  } else {
    this->read(*peer);
    mark_busy(rank);
  }
  return read;
}

void Exchange::read(Peer& peer) {
  const long result = peer.reader.advance();
  if (result != 0) fail(peer, Libfabric::get().text(result));
}

/// First all reads may end; then the peer is lost, and only what is in flight has to end; and then
/// the use of the endpoint, as nothing else ends a read.
void Exchange::end_reads(Rank rank) {
  Peer* const peer = peers_[rank].get();
  if (!peer || await_reads(*peer)) return;
  fail(*peer, "it did not send in time what was being read from it");
  if (await_reads(*peer)) return;
  end(
      fmt::format("{} did not send in time what was being read from it, and libfabric cannot "
                  "cancel that; so this rank has given up its endpoint",
                  who_is(rank)));
}

/// Whether no read from the peer is under way any more. Mirrors change in progress() alone: what
/// arrives meanwhile is not applied.
bool Exchange::await_reads(Peer& peer) {
  const Deadline deadline = Deadline::in(longest_wait_ / 2);
  while (!peer.reader.idle()) {
    if (deadline.expired()) return false;
    try {
      endpoint_->drain([this](const Completion& completion) { handle(completion); });
      post_receives();
      read(peer);
    } catch (const SystemError& error) {
      end(error.what());
    }
    std::this_thread::yield();
  }
  return true;
}

/// Gives up all peers, so that nothing is written to memory of callers any more. The endpoint of a
/// card is closed. That of software is only not used any more: it writes in this rank's calls
/// alone, and closing it in the middle of a read would crash ofi_rxm over TCP (libfabric 1.17).
void Exchange::end(const std::string& reason) {
  if (ended_) return;
  left_open_ = !rules_.card_reads;
  ended_ = reason;
  if (!left_open_) endpoint_->stop();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    fail(*peer, reason);
    peer->reader.stop();
    peer->given_up = Deadline::in(std::chrono::milliseconds{0});
    peer->busy = false;
  }
  busy_.clear();
}

}  // namespace capstan::ofi
