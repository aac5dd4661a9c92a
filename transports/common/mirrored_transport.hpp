// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "transports/common/borrowed.hpp"
#include "transports/common/mapping.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The common part of transports without shared memory: this rank's segment, and for each peer a
/// mirror that receives what the peer pushes. Mirrors cost memory only where they are touched.
class MirroredTransport : public Transport {
 public:
  std::span<std::byte> segment() final { return segment_; }
  const Link& link(Rank peer) const final { return links_[index(peer)]; }

 protected:
  /// Segment and mirrors have `hidden` more bytes behind their visible part. Throws InvalidArgument
  /// for an impossible size, SystemError when there is no memory.
  MirroredTransport(Rank self, int ranks, Bytes segment, Borrowed memory, Bytes hidden = Bytes{0});

  Rank self() const { return self_; }
  int ranks() const { return static_cast<int>(links_.size()); }
  /// Throws InvalidArgument unless `peer` is one of the ranks.
  std::size_t index(Rank peer) const;
  /// The rank that a link leads to, for ring().
  Rank peer_of(const Link& link) const {
    return Rank{static_cast<std::int32_t>(&link - links_.data())};
  }
  /// Makes the mirror of a peer's segment, and the link that shows it.
  void make_mirror(Rank peer);
  /// Receives what the peer pushes.
  std::byte* mirror(Rank peer) { return mirrors_[index(peer)]; }
  std::span<std::byte* const> mirrors() const { return mirrors_; }

 private:
  const Rank self_;
  Mapping own_;
  std::span<std::byte> segment_;
  const Bytes hidden_;
  const std::span<std::byte* const> borrowed_mirrors_;
  std::vector<Mapping> own_mirrors_;  // by peer; empty where borrowed
  std::vector<std::byte*> mirrors_;
  std::vector<Link> links_;
  std::atomic<std::uint32_t> always_{1};  // the doorbell of every link
};

}  // namespace capstan
