// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/multirail/multirail_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/own_process.hpp"
#include "core/platform/net/poller.hpp"
#include "core/platform/net/wait_readable.hpp"
#include "transports/common/joined_address.hpp"
#include "transports/common/mirrored_transport.hpp"
#include "transports/common/requirements.hpp"
#include "transports/compose/multirail/peer_state.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using multirail::PeerState;
using multirail::PieceCounters;
using multirail::PushedRange;

/// Cutting a range costs a round trip. Sending a piece of this size takes longer than that.
// measured: docs/lab-notebook.md#smallest-piece
constexpr std::uint64_t smallest_piece = 64 * 1024;
/// The most peers that one call of progress() checks for arrived pieces.
constexpr std::size_t most_checks = 16;
/// Calls of progress() between two checks whether a peer that acknowledges nothing is still there.
constexpr std::uint64_t calls_between_checks = 256;
constexpr auto longest_blind_sleep = 1ms;  // if a rail has no descriptor
constexpr auto linger = 2s;                // time without progress of peers

class MultirailTransport final : public MirroredTransport {
 public:
  MultirailTransport(Rank self, int ranks, Bytes segment, int rails, const MakeRail& make,
                     std::byte* shared);
  ~MultirailTransport() override;

  std::string_view name() const override { return name_; }
  Address address() const override;
  void connect(std::span<const Address> addresses, Deadline deadline) override;
  void push(Rank peer, Bytes offset, Bytes length) override {
    push(peer, PushedRange{offset, length});
  }
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override {
    push(peer, PushedRange{offset, length, static_cast<const std::byte*>(from)});
  }
  void announce_sources(std::span<const std::byte> input,
                        std::span<const std::byte> output) override;
  bool pushed(Rank peer) const override;
  void detach_sources(Rank peer) override;
  void progress() override;
  int descriptor() const override { return blind_ ? -1 : events_.descriptor(); }
  void prepare_to_sleep() override;
  void sleep(std::chrono::nanoseconds at_most) override;
  void cancel_sleep() override;
  bool watch(Rank peer) override;
  std::optional<std::string> departed(Rank peer) override;
  void end_soon() override {
    linger_ = farewell;
    for (const auto& rail : rails_) rail->end_soon();
  }

 private:
  void ring(const Link& link) override;
  void push(Rank peer, const PushedRange& range);
  void push_in_pieces(PeerState& state, const PushedRange& range);
  void serve_peers(std::size_t most);
  void acknowledge(PeerState& state);
  void release(PeerState& state);
  void watch_descriptors();
  void leave();
  int count() const { return static_cast<int>(rails_.size()); }
  Transport& first() const { return *rails_.front(); }
  /// Null for this rank itself and for peers without a link.
  PeerState* state_of(Rank peer) const { return states_[index(peer)].get(); }

  const OwnProcess process_;
  const PieceCounters counters_;
  std::vector<std::unique_ptr<Transport>> rails_;
  std::string name_;
  std::vector<std::unique_ptr<PeerState>> states_;  // by rank
  std::vector<PeerState*> linked_;                  // those that are not null
  std::size_t next_checked_ = 0;                    // of linked_
  Poller events_;                                   // watches all rails
  std::chrono::milliseconds linger_ = linger;
  bool blind_ = false;  // some rail has no descriptor
};

MultirailTransport::MultirailTransport(Rank self, int ranks, Bytes segment, int rails,
                                       const MakeRail& make, std::byte* shared)
    : MirroredTransport(self, ranks, segment, shared,
                        PieceCounters::behind(segment).end() - segment),
      counters_(PieceCounters::behind(segment)),
      states_(static_cast<std::size_t>(ranks)) {
  for (int rail = 0; rail < rails; ++rail)
    rails_.push_back(make(rail, counters_.end(), {this->segment().data(), mirrors()}));
  name_ = fmt::format("{} x {}", rails, first().name());
  watch_descriptors();
}

void MultirailTransport::watch_descriptors() {
  for (const auto& rail : rails_) {
    const int descriptor = rail->descriptor();
    if (descriptor < 0) {
      blind_ = true;
    } else {
      events_.add(descriptor, {}, Poller::input);
    }
  }
}

// --- Connecting ---

Address MultirailTransport::address() const {
  std::vector<Address> addresses;
  for (const auto& rail : rails_) addresses.push_back(rail->address());
  return join_addresses(addresses);
}

void MultirailTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  require_connectable(self(), false, addresses.size(), states_.size());
  std::vector<std::vector<Address>> of_rail(rails_.size(), std::vector<Address>(addresses.size()));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Rank peer{static_cast<std::int32_t>(i)};
    if (peer == self() || addresses[i].empty()) continue;
    std::vector<Address> parts = split_addresses(addresses[i], rails_.size());
    if (parts.empty())
      throw BootstrapError(fmt::format(
          "rank {}: connect: rank {} cannot be met: its address is none of {} rails: use the same "
          "release of Capstan and the same number of rails on all ranks",
          self().value(), i, rails_.size()));
    for (std::size_t rail = 0; rail < rails_.size(); ++rail)
      of_rail[rail][i] = std::move(parts[rail]);
    if (states_[i]) continue;  // a second connect(): the rails throw
    make_mirror(peer);
    states_[i] = std::make_unique<PeerState>(peer, mirror(peer));
    linked_.push_back(states_[i].get());
  }
  for (std::size_t rail = 0; rail < rails_.size(); ++rail)
    rails_[rail]->connect(of_rail[rail], deadline);
}

// --- Sending ---

void MultirailTransport::push(Rank peer, const PushedRange& range) {
  PeerState* to = state_of(peer);
  if (!to || range.length.value() == 0) return;
  if (range.length.value() >= smallest_piece * rails_.size()) return push_in_pieces(*to, range);
  if (to->held.empty() && to->is_clear(counters_)) return range.push_to(first(), peer);
  to->held.add(range, segment());
}

void MultirailTransport::push_in_pieces(PeerState& state, const PushedRange& range) {
  ++state.cut;
  for (int rail = 0; rail < count(); ++rail) {
    Transport& by = *rails_[static_cast<std::size_t>(rail)];
    range.piece(rail, count()).push_to(by, state.peer);
    by.push_from(state.peer, counters_.count_of(rail), &state.cut, Bytes{sizeof state.cut});
  }
  state.pieces_to_wake.store(true, std::memory_order_relaxed);
}

void MultirailTransport::ring(const Link& link) {
  const Rank peer = peer_of(link);
  first().wake(first().link(peer));
  PeerState& to = *state_of(peer);
  if (!to.pieces_to_wake.load(std::memory_order_relaxed)) return;
  to.pieces_to_wake.store(false, std::memory_order_relaxed);
  for (std::size_t rail = 1; rail < rails_.size(); ++rail)
    rails_[rail]->wake(rails_[rail]->link(peer));
}

void MultirailTransport::announce_sources(std::span<const std::byte> input,
                                          std::span<const std::byte> output) {
  for (const auto& rail : rails_) rail->announce_sources(input, output);
}

/// False while any push is held back: only progress() releases it, and the caller may not call that
/// any more.
bool MultirailTransport::pushed(Rank peer) const {
  const PeerState* to = state_of(peer);
  const auto has_pushed = [&](const auto& rail) { return rail->pushed(peer); };
  return !to ||
         (to->held.empty() && to->is_clear(counters_) && std::ranges::all_of(rails_, has_pushed));
}

void MultirailTransport::detach_sources(Rank peer) {
  PeerState* to = state_of(peer);
  if (!to) return;
  to->held.save(segment());
  for (const auto& rail : rails_) rail->detach_sources(peer);
}

// --- Moving on ---

void MultirailTransport::progress() {
  for (const auto& rail : rails_) rail->progress();
  serve_peers(most_checks);
}

void MultirailTransport::serve_peers(std::size_t most) {
  const std::size_t checks = std::min(linked_.size(), most);
  for (std::size_t i = 0; i < checks; ++i) {
    PeerState& state = *linked_[next_checked_];
    if (++next_checked_ == linked_.size()) next_checked_ = 0;
    acknowledge(state);
    release(state);
  }
}

void MultirailTransport::acknowledge(PeerState& state) {
  const std::uint64_t arrived = state.arrived(counters_, count());
  if (arrived == state.acknowledged) return;
  state.acknowledged = arrived;
  first().push_from(state.peer, counters_.arrived(), &state.acknowledged, Bytes{sizeof arrived});
  first().wake(first().link(state.peer));
}

void MultirailTransport::release(PeerState& state) {
  if (state.held.has_copies() && state.held.empty() && first().pushed(state.peer))
    state.held.forget();
  if (!state.is_clear(counters_)) {
    if (++state.waited % calls_between_checks == 0) departed(state.peer);
    return;
  }
  if (state.held.empty()) return;
  state.held.release(first(), state.peer);
  first().wake(first().link(state.peer));
}

// --- The end ---

bool MultirailTransport::watch(Rank peer) {
  return first().watch(peer);
}

std::optional<std::string> MultirailTransport::departed(Rank peer) {
  for (const auto& rail : rails_) {
    auto why = rail->departed(peer);
    if (!why) continue;
    if (PeerState* to = state_of(peer)) to->gone = true;
    return why;
  }
  return std::nullopt;
}

MultirailTransport::~MultirailTransport() {
  if (process_.is_this()) leave();  // else a forked child's copy: the rank is still there
}

/// Waits for the peers: after the end of one rail a peer would drop data that other rails carry.
void MultirailTransport::leave() {
  const auto waiting = [&](const PeerState* state) {
    return !(state->held.empty() && state->is_clear(counters_)) && !departed(state->peer);
  };
  const auto taken = [&] {
    std::uint64_t all = 0;
    for (const PeerState* state : linked_) all += state->word(counters_.arrived());
    return all;
  };
  std::uint64_t before = taken();
  for (Deadline until = Deadline::in(linger_);
       !until.expired() && std::ranges::any_of(linked_, waiting);) {
    for (const PeerState* state : linked_) wake(link(state->peer));
    progress();
    std::this_thread::sleep_for(20us);
    if (taken() != before) until = Deadline::in(linger_);
    before = taken();
  }
}

// --- Sleeping ---

void MultirailTransport::prepare_to_sleep() {
  for (const auto& rail : rails_) rail->prepare_to_sleep();
  serve_peers(linked_.size());  // no descriptor reports data that arrived before
}

void MultirailTransport::sleep(std::chrono::nanoseconds at_most) {
  if (blind_) at_most = std::min<std::chrono::nanoseconds>(at_most, longest_blind_sleep);
  wait_readable({events_.descriptor()}, at_most);
  cancel_sleep();
}

void MultirailTransport::cancel_sleep() {
  for (const auto& rail : rails_) rail->cancel_sleep();
}

}  // namespace

Bytes rails_segment(Bytes segment) {
  return PieceCounters::behind(segment).end();
}

std::unique_ptr<Transport> make_multirail_transport(Rank self, int ranks, Bytes segment, int rails,
                                                    const MakeRail& make,
                                                    std::byte* shared_segment) {
  if (rails < 1 || rails > most_rails)
    throw InvalidArgument(
        fmt::format("there cannot be {} rails: choose 1 to {}", rails, most_rails));
  return std::make_unique<MultirailTransport>(self, ranks, segment, rails, make, shared_segment);
}

}  // namespace capstan
