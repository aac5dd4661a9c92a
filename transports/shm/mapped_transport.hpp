// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "transports/shm/sleeper.hpp"
#include "transports/transport.hpp"

namespace capstan::shm {

/// The header, shared beside the segment. Peers write to its doorbell only.
struct alignas(128) Header {
  alignas(64) Doorbell doorbell{0};
  /// 1 once the rank has destroyed its transport.
  alignas(64) std::atomic<std::uint32_t> left{0};
};

/// The common part of transports whose links are mapped.
class MappedTransport : public Transport {
 public:
  std::span<std::byte> segment() final { return segment_; }
  const Link& link(Rank peer) const final { return links_[index(peer)]; }
  void push(Rank, Bytes, Bytes) final {}
  void progress() final {}
  int descriptor() const final { return sleeper_.descriptor(); }
  void prepare_to_sleep() final { sleeper_.prepare(); }
  void sleep(std::chrono::nanoseconds at_most) final { sleeper_.sleep(at_most); }
  void cancel_sleep() final { sleeper_.cancel(); }

 protected:
  /// `header`, `segment` and `bell` (see Sleeper) outlive the transport.
  MappedTransport(Rank self, int ranks, Scope scope, Header& header, std::span<std::byte> segment,
                  bool use_membarrier, int bell);

  Rank self() const { return self_; }
  std::size_t ranks() const { return links_.size(); }
  Sleeper& sleeper() { return sleeper_; }
  /// Throws InvalidArgument unless `peer` is one of the ranks.
  std::size_t index(Rank peer) const;
  /// `bell` is the peer's descriptor, or -1.
  void set_link(Rank peer, const std::byte* segment, Header& header, int bell,
                const std::byte* writable_alias = nullptr);
  void ring(const Link& link) final {
    ring_doorbell(*link.doorbell, scope_, bells_[static_cast<std::size_t>(&link - links_.data())]);
  }

 private:
  Rank self_;
  Scope scope_;
  std::span<std::byte> segment_;
  Sleeper sleeper_;
  std::vector<Link> links_;
  std::vector<int> bells_;  // by rank, as the links
};

}  // namespace capstan::shm
