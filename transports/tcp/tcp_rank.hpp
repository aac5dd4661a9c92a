// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/net/own_process.hpp"
#include "transports/common/mirrored_transport.hpp"
#include "transports/tcp/acceptor.hpp"
#include "transports/tcp/listeners.hpp"
#include "transports/tcp/opener.hpp"
#include "transports/tcp/peer_connection.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace capstan::tcp {

/// One rank and its connections: see make_tcp_transport(). tcp_transport.cpp has what it does while
/// peers are there, leaving.cpp how it loses them and how it leaves.
class TcpTransport final : public MirroredTransport {
 public:
  TcpTransport(Rank self, int ranks, Bytes segment, const TcpOptions& options,
               const Borrowed& memory, std::vector<HostAddress> local, Listeners listeners);
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  Address address() const override { return setup_.own.encode(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override;
  void push(Rank peer, Bytes offset, Bytes length) override;
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override;
  bool pushed(Rank peer) const override;
  void detach_sources(Rank peer) override;
  void progress() override;
  int descriptor() const override { return poller_.descriptor(); }
  void prepare_to_sleep() override;
  void sleep(std::chrono::nanoseconds at_most) override;
  void cancel_sleep() override;
  bool watch(Rank peer) override;
  std::optional<std::string> departed(Rank peer) override;
  void end_soon() override { linger_ = std::min(linger_, farewell); }

 protected:
  void ring(const Link& link) override;

 private:
  void open_all(Deadline deadline);
  std::string describe_unreached(const PeerConnection& peer, Deadline deadline) const;
  /// Guests may be ranks. Once all have connected guests are strangers, who can wait.
  // measured: docs/lab-notebook.md#guests-of-a-busy-rank
  bool awaits_guests() const { return acceptor_.busy() && connected_.size() < links_; }
  void handle_events();
  void handle_timeouts();
  void dispatch(const Poller::Event& event);
  void take_outcomes();
  void begin(PeerConnection& peer, Outcome outcome);
  void serve(PeerConnection& peer);
  void look_for_end(PeerConnection& peer);
  void lose(PeerConnection& peer, std::string why);
  void leave();
  std::uint64_t unacknowledged() const;
  template <class Condition>
  void finish(Condition condition);
  template <class Condition>
  void work_until(Condition condition, Deadline deadline);

  const TcpOptions options_;
  std::chrono::milliseconds linger_ = options_.linger;
  bool answered_ = true;  // peers' hosts, as far as finish() waited for them
  const OwnProcess process_;
  Poller poller_ = Poller::with_alarm();
  ConnectionSetup setup_;
  Acceptor acceptor_;
  Opener opener_;
  std::vector<std::unique_ptr<PeerConnection>> peers_;  // by rank; null where there is no link
  std::size_t links_ = 0;                               // how many are not null
  std::vector<PeerConnection*> connected_;
  std::vector<std::byte> buffer_;
  std::atomic<bool> sleeping_{false};  // or about to
  bool started_ = false;
  std::atomic<bool> events_due_ = false;  // also set by a thread that sleeps here
  unsigned calls_ = 0;
};

/// Makes progress until the condition is met or the time is up.
template <class Condition>
void TcpTransport::work_until(Condition condition, Deadline deadline) {
  while (true) {
    prepare_to_sleep();
    progress();
    if (condition() || deadline.expired()) return cancel_sleep();
    // The condition may become true without an event, so the sleep is short.
    sleep(std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::milliseconds{5}));
  }
}

}  // namespace capstan::tcp
