#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "transports/shm/sleeper.hpp"
#include "transports/transport.hpp"

namespace capstan::shm {

/// What a rank shares with its peers besides its segment. Peers write to it: the doorbell only.
struct alignas(128) Header {
  alignas(64) Doorbell doorbell{0};
  /// 1 once the rank has destroyed its transport.
  alignas(64) std::atomic<std::uint32_t> left{0};
};

/// What the transports over load and store have in common.
class MappedTransport : public Transport {
 public:
  std::span<std::byte> segment() final { return segment_; }
  const Link& link(Rank peer) const final { return links_[index(peer)]; }
  void push(Rank, Bytes, Bytes) final {}
  void progress() final {}
  void prepare_to_sleep() final { sleeper_.prepare(); }
  void sleep(std::chrono::nanoseconds at_most) final { sleeper_.sleep(at_most); }
  void cancel_sleep() final { sleeper_.cancel(); }

 protected:
  /// Both `header` and `segment` outlive the transport.
  MappedTransport(Rank self, int ranks, Scope scope, Header& header, std::span<std::byte> segment,
                  bool use_membarrier);

  Rank self() const { return self_; }
  std::size_t ranks() const { return links_.size(); }
  Sleeper& sleeper() { return sleeper_; }
  /// Throws InvalidArgument unless `peer` is one of the ranks.
  std::size_t index(Rank peer) const;
  void set_link(Rank peer, const std::byte* segment, Header& header);
  void ring(const Link& link) final { ring_doorbell(*link.doorbell, scope_); }

 private:
  Rank self_;
  Scope scope_;
  std::span<std::byte> segment_;
  Sleeper sleeper_;
  std::vector<Link> links_;
};

}  // namespace capstan::shm
