// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/loopback_transport.hpp"

#include <fmt/format.h>

#include <atomic>

#include "capstan/error.hpp"
#include "transports/common/mirrored_transport.hpp"
#include "transports/common/requirements.hpp"
#include "transports/loopback/bell.hpp"
#include "transports/loopback/channel.hpp"

namespace capstan {
namespace {

/// The state that all ranks share.
struct Arena {
  struct RankState {
    loopback::Bell bell;
    std::atomic<bool> left{false};
  };
  explicit Arena(std::size_t ranks) : size(ranks), states(ranks), channels(ranks * ranks) {}

  loopback::Channel& channel(std::size_t from, std::size_t to) {
    return channels[from * size + to];
  }

  std::size_t size;
  std::vector<RankState> states;
  std::vector<loopback::Channel> channels;
};

class LoopbackTransport final : public MirroredTransport {
 public:
  LoopbackTransport(Rank self, std::shared_ptr<Arena> arena, Bytes segment, std::byte* shared)
      : MirroredTransport(self, static_cast<int>(arena->size), segment, shared),
        arena_(std::move(arena)),
        seen_delivered_(arena_->size) {}
  ~LoopbackTransport() override {
    for (int peer = 0; peer < ranks(); ++peer) {
      to(Rank{peer}).close_sender();
      from(Rank{peer}).close_receiver();
    }
    state_of(self()).left.store(true, std::memory_order_release);
  }

  std::string_view name() const override { return "loopback"; }
  Address address() const override { return {std::byte{1}}; }
  void connect(std::span<const Address> addresses, Deadline) override {
    require_connectable(self(), false, addresses.size(), static_cast<std::size_t>(ranks()));
    for (int rank = 0; rank < ranks(); ++rank) {
      const Rank peer{rank};
      if (peer != self() && !addresses[index(peer)].empty()) make_mirror(peer);
    }
  }

  void push(Rank peer, Bytes offset, Bytes length) override {
    require_range(offset, length);
    post(peer, offset, segment().data() + offset.value(), length);
  }
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override {
    require_range(offset, length);
    post(peer, offset, static_cast<const std::byte*>(from), length);
  }

  bool pushed(Rank peer) const override {
    return seen_delivered_[index(peer)] >= to(peer).awaited();
  }
  void detach_sources(Rank peer) override { to(peer).detach(); }

  void progress() override {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Rank peer{rank};
      if (peer == self() || !link(peer).segment) continue;
      seen_delivered_[index(peer)] = to(peer).delivered();
      // The sender may be sleeping until its memory may change again.
      if (from(peer).deliver(mirror(peer))) state_of(peer).bell.ring();
    }
  }

  int descriptor() const override { return state_of(self()).bell.descriptor(); }
  void prepare_to_sleep() override { state_of(self()).bell.prepare(); }
  void sleep(std::chrono::nanoseconds at_most) override { state_of(self()).bell.sleep(at_most); }
  void cancel_sleep() override { state_of(self()).bell.cancel(); }

  std::optional<std::string> departed(Rank peer) override {
    if (!state_of(peer).left.load(std::memory_order_acquire)) return std::nullopt;
    return fmt::format("the thread of rank {} has destroyed its transport", peer.value());
  }

 private:
  Arena::RankState& state_of(Rank rank) const { return arena_->states[index(rank)]; }
  loopback::Channel& to(Rank peer) const { return arena_->channel(index(self()), index(peer)); }
  loopback::Channel& from(Rank peer) const { return arena_->channel(index(peer), index(self())); }

  void post(Rank peer, Bytes offset, const std::byte* from, Bytes length) {
    if (peer != self()) to(peer).push(offset, from, length);
  }

  void require_range(Bytes offset, Bytes length) {
    const Bytes size{segment().size()};
    if (offset > size || length > size - offset)
      throw InvalidArgument(fmt::format("rank {}: {} bytes at {} of a segment of {} bytes",
                                        self().value(), length.value(), offset.value(),
                                        size.value()));
  }

  void ring(const Link& link) override {
    const Rank peer = peer_of(link);
    to(peer).release();
    state_of(peer).bell.ring();
  }

  std::shared_ptr<Arena> arena_;
  std::vector<std::uint64_t> seen_delivered_;  // by peer, as of the last progress()
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback_transports(
    int ranks, Bytes segment, std::span<std::byte* const> shared) {
  if (ranks < 1)
    throw InvalidArgument(fmt::format("{} ranks were asked for; 1 is the least", ranks));
  const auto count = static_cast<std::size_t>(ranks);
  if (!shared.empty() && shared.size() != count)
    throw InvalidArgument(
        fmt::format("{} segments were given for {} ranks; give one each", shared.size(), ranks));

  const auto arena = std::make_shared<Arena>(count);
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::size_t rank = 0; rank < count; ++rank) {
    transports.push_back(
        std::make_unique<LoopbackTransport>(Rank{static_cast<std::int32_t>(rank)}, arena, segment,
                                            shared.empty() ? nullptr : shared[rank]));
  }
  return transports;
}

}  // namespace capstan
