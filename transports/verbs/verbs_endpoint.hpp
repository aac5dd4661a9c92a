// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "capstan/by_rank.hpp"
#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/rate_limited_warnings.hpp"
#include "transports/common/device_regions.hpp"
#include "transports/verbs/connection.hpp"
#include "transports/verbs/device_registrar.hpp"
#include "transports/verbs/greeter.hpp"

namespace capstan::verbs {

/// All connections of one rank: makes them, and passes completions on to them. Not thread-safe.
class VerbsEndpoint {
 public:
  /// Throws SystemError.
  VerbsEndpoint(Rank self, int ranks, std::span<std::byte> segment, const VerbsOptions& options);

  Address address() const { return address_.encode(); }

  /// Adds a peer whose pushes go to `mirror`. Throws SystemError.
  void add(Rank rank, const VerbsAddress& peer, std::byte* mirror);
  /// Decodes a peer's address into `peer`. Returns why it cannot be used, or nothing.
  std::optional<std::string> read_address(std::span<const std::byte> bytes,
                                          VerbsAddress& peer) const;
  /// Connects to all peers that were added. Throws BootstrapError that names those that failed.
  void connect_all(Deadline deadline);

  /// Null when that rank was not added.
  Connection* to(Rank rank) const { return peers_[rank].connection.get(); }

  /// The memory of callers that any connection sends from.
  RegisteredSources& sources() { return sources_; }
  /// Keys of memory that peers may read.
  std::shared_ptr<const MemoryKeys> readable(const void* data, Bytes size, MemoryKind kind);
  /// After a failure: keeps no registration of such memory any longer than its uses.
  void forget(const void* data, Bytes size, MemoryKind kind);
  bool reaches_devices() { return device_registrar_.open(); }
  /// See Transport. Null where the device cannot write to that memory.
  std::shared_ptr<RemoteRead> start_read(Rank rank, std::uint64_t address, std::uint32_t key,
                                         void* to, Bytes size, MemoryKind kind);
  void end_reads(Rank rank);

  /// Handles completions, and sends what could not be sent before.
  void progress();
  /// Probes a peer if the last probe is long ago, so that its end is noticed.
  void probe(Rank rank);
  /// See Transport.
  void detach_sources(Rank rank);
  /// Sends what was released, then a goodbye to every peer. Waits for acknowledgements, but not
  /// long.
  void leave();
  /// leave() waits no longer than this.
  void limit_leave(std::chrono::milliseconds longest) { longest_leave_ = longest; }

  /// Readable after arm(), as soon as progress() has something to do.
  int descriptor() const { return channel_->fd; }
  void arm();

 private:
  struct Peer {
    VerbsAddress address;
    std::unique_ptr<Pieces> mirror;
    std::unique_ptr<Connection> connection;
    bool known = false;  // this end is connected to the peer's end
    bool ready = false;  // the peer's end is connected, too
    Deadline::Clock::time_point probed{};
  };

  SendQueue::Shape shape_for(Rank rank) const;
  Secret key_between(Rank from, Rank to) const;
  void greet(Rank rank);
  void handle_greeting(const Greeting& greeting);
  void take(const ibv_wc& completion);
  void await(Rank rank, const std::function<bool(const Connection&)>& done, std::string_view owed);
  void handle_control(Rank rank, std::span<const std::byte> bytes);
  void tell_key(Rank rank, std::uint64_t piece);
  std::string no_way_to(Rank rank, const SystemError& error) const;
  std::string describe(Rank rank) const;
  std::string missing() const;
  std::shared_ptr<const MemoryKeys> on_device(const void* data, Bytes size);

  const Rank self_;
  const VerbsOptions options_;
  Device device_;
  VerbsAddress address_;
  ReceiveQueue receive_queue_;
  CompletionChannel channel_;
  CompletionQueue completions_;
  Pieces own_;
  CallerRegistrar source_registrar_, target_registrar_;
  // They outlive the connections. Exposed memory has registrations of its own: an announcement of
  // a former call must not be taken for it.
  RegisteredSources sources_, exposed_, targets_;
  DeviceRegistrar device_registrar_;
  DeviceRegions device_regions_;
  ByRank<Peer> peers_;
  std::unordered_map<std::uint32_t, Rank> by_queue_pair_;  // rank of the peer
  std::unique_ptr<Greeter> greeter_;                       // until all are connected
  RateLimitedWarnings warnings_{fmt::format("rank {}: verbs: dropped", self_.value())};
  std::optional<std::chrono::milliseconds> longest_leave_;
};

}  // namespace capstan::verbs
