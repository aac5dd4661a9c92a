// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/platform/net/rate_limited_warnings.hpp"
#include "transports/ofi/caller_memory.hpp"
#include "transports/ofi/frame_pool.hpp"
#include "transports/ofi/liveness.hpp"
#include "transports/ofi/ofi_address.hpp"
#include "transports/ofi/ofi_endpoint.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/ofi/reader.hpp"
#include "transports/ofi/receiver.hpp"
#include "transports/ofi/sender.hpp"

namespace capstan::ofi {

/// Providers may never complete operations that a departed peer did not receive (the rendezvous of
/// ofi_rxm). After this time the retries of hardware have ended, too, and nothing reads this rank's
/// memory for that peer.
inline constexpr std::chrono::seconds time_to_give_up{3};

/// One rank's endpoint and its exchange with all peers. Not thread-safe.
class Exchange {
 public:
  /// Throws InvalidArgument and SystemError.
  Exchange(Rank self, int ranks, std::span<std::byte> segment, const OfiOptions& options);
  ~Exchange();

  const OfiAddress& address() const { return address_; }
  int wait_descriptor() const { return endpoint_->wait_descriptor(); }
  bool may_wait() { return ended_ || endpoint_->wait_descriptor() < 0 || endpoint_->may_wait(); }
  /// Whether nothing is in flight, waits to be sent, or may be held by the provider.
  bool idle() const { return busy_.empty(); }

  /// Throws BootstrapError for an address that cannot be used.
  void add_peer(Rank rank, const Address& address, std::byte* mirror);
  /// Whether introductions have been exchanged with every peer.
  bool all_met() const;
  /// Throws BootstrapError when a missing peer can no longer connect, or if `too_late`.
  void require_reachable(bool too_late);

  void push(Rank peer, Bytes offset, Bytes length);
  void push_from(Rank peer, Bytes offset, const std::byte* from, Bytes length);
  RegisteredSources& sources() { return memory_.sources(); }
  void release(Rank peer);
  bool pushed(Rank peer) const;
  void detach_sources(Rank peer);
  void progress();
  std::optional<std::string> departed(Rank peer);

  /// The keys by which a peer reads this memory; null where it cannot.
  CallerMemory::Keys expose(Rank peer, const void* data, Bytes size, MemoryKind kind);
  /// After a failure: keeps no registration of such memory any longer than its uses.
  void forget(const void* data, Bytes size, MemoryKind kind) { memory_.forget(data, size, kind); }
  bool reaches_devices() { return memory_.reaches_devices(); }
  /// See Transport. `key` is RemoteMemory::key, plus one.
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind);
  void end_reads(Rank peer);
  /// end_reads() waits no longer than this.
  void limit_waits(std::chrono::milliseconds longest) { longest_wait_ = longest; }

  /// Tells all peers that this rank leaves.
  void say_goodbye();
  /// Whether a tagged message is being received into a mirror.
  bool receives_payload() const;
  /// Whether closing the endpoint would crash ofi_rxm (libfabric 1.17): in the middle of a tagged
  /// message, or of a read over TCP.
  bool must_stay_open() const { return left_open_ || receives_payload(); }
  /// Replaces the destructor while must_stay_open(): leaks the endpoint and its memory.
  static void abandon(std::unique_ptr<Exchange> exchange);
  /// Whether every remaining peer has applied everything that was sent to it.
  bool all_taken() const;

 private:
  struct Peer {
    Peer(OfiEndpoint& endpoint, FramePool& pool, const Rules& rules, const Sender::Route& out,
         const Receiver::Route& in, const Secret& key, const OfiAddress& where,
         const OfiAddress& here)
        : address(where),
          incoming(key),
          sender(endpoint, pool, rules, out),
          receiver(endpoint, pool, in),
          reader(endpoint, out.peer, out.address, rules.largest),
          watch(where, here) {}

    OfiAddress address;
    Secret incoming;  // the key of its frames
    Registration mirror;
    Sender sender;
    Receiver receiver;
    Reader reader;
    LivenessWatch watch;
    std::optional<std::string> failure;        // as the provider or the watch reports it
    Deadline failure_due = Deadline::never();  // when to report it unless its cause is known
    Deadline given_up = Deadline::never();     // when operations to a departed peer count as ended
    bool met = false;
    bool gone() const { return failure || receiver.has_left(); }
    bool busy = false;
  };

  Peer& linked(Rank rank) const;
  Rules rules_for(const OfiOptions& options, int ranks) const;
  void post_receives();
  void mark_busy(Rank rank);
  void advance_busy_peers();
  void advance(Peer& peer);
  void send(Peer& peer);
  void read(Peer& peer);
  bool await_reads(Peer& peer);
  void end(const std::string& reason);

  void handle(const Completion& completion);
  void on_message(Frame& frame, std::size_t size);
  void on_hello(Peer& peer, const Frame& frame, std::size_t size);
  void on_failure(const Completion& completion);
  void fail(Peer& peer, const std::string& reason);
  std::string who_is(Rank rank) const;
  static std::string state_of(Peer& peer);
  std::optional<std::string> departure_of(Peer& peer);

  const Rank self_;
  const JobKey key_;
  const std::span<std::byte> segment_;
  std::unique_ptr<OfiEndpoint> endpoint_;
  LivenessListener liveness_listener_;
  const OfiAddress address_;
  const Rules rules_;
  FramePool pool_;
  Registration segment_registration_;
  CallerMemory memory_;                  // outlives the operations of the peers
  ByRank<std::unique_ptr<Peer>> peers_;  // null: this rank, or not linked
  std::vector<Rank> busy_;               // ranks with unfinished work
  std::size_t receives_wanted_ = 0;
  std::size_t receives_posted_ = 0;
  std::chrono::milliseconds longest_wait_ = time_to_give_up;
  std::optional<std::string> ended_;  // why the endpoint is used no more, if so
  bool left_open_ = false;            // it was not closed then
  RateLimitedWarnings warnings_{fmt::format("rank {}: ofi: dropped", self_.value())};
};

}  // namespace capstan::ofi
