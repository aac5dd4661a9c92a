// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "transports/common/mirrored_transport.hpp"
#include "transports/compose/faulty/nudged_descriptor.hpp"
#include "transports/compose/faulty/stream.hpp"

namespace capstan {

/// Wraps a transport and injects the faults of a FaultPlan, within what transports/transport.hpp
/// allows: order, whole words and wake-ups hold all the same. For tests. All ranks use the same
/// plan.
///
/// Links are never mapped, even if those of the inner transport are. Pushes travel as streams
/// through the inner segment, and the receiver shows them in its mirror, with the faults.
///
/// If the inner transport is mapped, long ranges of the segment are read when they become visible;
/// bytes of push_from() are read when the stream has room for them. A rank whose peers do not call
/// progress() may have to call it for these to arrive. The destructor waits at most a second for
/// them.
class FaultyTransport final : public MirroredTransport {
 public:
  /// The size of segment that the inner transport must have. Throws InvalidArgument.
  static Bytes inner_segment(Bytes segment, int ranks);

  /// `segment` is the visible part of the inner transport's segment, which nobody else writes. The
  /// inner transport may be connected already. Throws InvalidArgument and SystemError.
  FaultyTransport(std::unique_ptr<Transport> inner, Rank self, int ranks, Bytes segment,
                  FaultPlan plan);
  ~FaultyTransport() override;

  std::string_view name() const override { return name_; }
  Address address() const override { return inner_->address(); }
  void connect(std::span<const Address> addresses, Deadline deadline) override;
  void push(Rank peer, Bytes offset, Bytes length) override;
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override;
  bool pushed(Rank peer) const override;
  void progress() override;
  int descriptor() const override { return nudged_ ? nudged_->descriptor() : -1; }
  void prepare_to_sleep() override;
  void sleep(std::chrono::nanoseconds at_most) override;
  void cancel_sleep() override;
  void detach_sources(Rank peer) override;
  bool watch(Rank peer) override;
  /// Names the injected fault if that is the reason.
  std::optional<std::string> departed(Rank peer) override;
  void end_soon() override;

 private:
  /// The streams to and from one peer.
  struct Connection {
    faulty::Outbound out;
    faulty::Inbound in;
    bool settled = true;       // as of the last progress()
    std::uint64_t waited = 0;  // calls of progress() since it was settled
  };

  void ring(const Link& link) override;
  /// Makes the connections to peers that the inner transport has a link to.
  void open_connections();
  /// Null for this rank itself and for peers without a link.
  Connection* connection(Rank peer) const { return connections_[index(peer)].get(); }
  void post(Rank peer, Bytes offset, const void* from, Bytes length);
  void serve(Rank peer, Connection& connection, bool others_have_news);
  void abandon_if_departed(Rank peer, Connection& connection);
  void linger();

  const std::unique_ptr<Transport> inner_;
  const FaultPlan plan_;
  const faulty::StreamLayout layout_;
  const std::string name_;

  /// Guards the members below, as any thread calls wake(). Not held while asleep, so that others
  /// can push through the inner transport meanwhile.
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by peer
  std::optional<faulty::NudgedDescriptor> nudged_;
  bool held_back_ = false;  // something has arrived and is not visible yet
  bool preparing_ = false;  // between prepare_to_sleep() and the sleep
  std::uint64_t sleeps_ = 0;
  std::chrono::milliseconds longest_linger_{1000};
};

}  // namespace capstan
