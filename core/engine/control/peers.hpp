// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/control/notes.hpp"
#include "core/engine/control/segment.hpp"
#include "core/engine/control/shared_memory.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The peers of one rank of a communicator: gives access to their segments, wakes them, and keeps
/// track of which ranks use buffers of others at this moment.
///
/// Used by one thread at a time.
class Peers {
 public:
  /// `world_ranks[r]` is the rank of peer r in the world. A rank sleeps on the transport of the
  /// world, `bell`. `memory` belongs to the world, too.
  Peers(Transport& transport, Transport& bell, const shared::SharedMemory& memory,
        const std::vector<int>& world_ranks, Rank self);

  Rank self() const { return self_; }
  int count() const { return links_.size(); }
  /// All ranks but this one, in rising order.
  const std::vector<Rank>& others() const { return others_; }
  Transport& transport() { return transport_; }

  std::byte* own_segment() { return segment_; }
  const std::byte* segment(Rank peer) const { return link(peer).segment; }
  /// The peer's segment, mapped so that long reads are faster; see Link::writable_alias.
  const std::byte* segment_for_long_reads(Rank peer) const {
    const Link& to = link(peer);
    return to.writable_alias ? to.writable_alias : to.segment;
  }
  Notes& notes() { return notes_; }
  Control& own_control() { return control_of(segment_); }
  const Control& control(Rank peer) const { return control_of(segment(peer)); }

  /// Whether the peer's segment is the peer's own memory. Otherwise it is a mirror of what the peer
  /// has shown to this rank.
  bool mapped(Rank peer) const { return link(peer).mapped; }
  /// The peers whose segments are not mapped.
  const std::vector<Rank>& posted() const { return posted_; }
  /// The peers whose segments are mapped: they may be read by any thread.
  const std::vector<Rank>& mapped() const { return mapped_; }

  /// Sends a part of this rank's segment, with the next wake, to a peer that has not mapped it.
  void show(Rank peer, const void* begin, std::size_t bytes) {
    if (!mapped(peer)) push(peer, begin, bytes);
  }
  template <class Object>
  void show(Rank peer, const Object& object) {
    show(peer, &object, sizeof object);
  }
  /// Makes the peer look at what has been published and shown.
  void wake(Rank peer) {
    if (mapped(peer))
      bell_.wake(*bells_[peer]);
    else
      transport_.wake(link(peer));
  }
  /// Wakes the peers that have mapped this rank's segment.
  void wake_mapped() {
    for (const Link* const bell : mapped_bells_) bell_.wake(*bell);
  }
  void wake_all();
  /// Shows all peers that this rank has left or given up, and what it had finished.
  void show_end();

  /// Where this process has mapped memory of a peer; null if it has not.
  std::byte* view(Rank peer, shared::AllocationId id, std::uint64_t address, Bytes size) const {
    return memory_.view(world_ranks_[peer], id, address, size);
  }
  /// The allocation of this rank that contains a buffer; 0: none that peers may map.
  shared::AllocationId allocation_of(const void* buffer, Bytes size) const {
    return memory_.id_of(buffer, size);
  }

  /// Whether a peer has said that it leaves the communicator.
  bool left(Rank peer) const { return control(peer).left.load(std::memory_order_acquire) != 0; }

  /// Whether the buffers that a peer has exposed may still be used. A peer publishes its failure,
  /// or that it leaves, before it gives buffers back to its caller while others may be using them.
  bool buffers_valid(Rank peer) const {
    return control(peer).abort.kind.load(std::memory_order_seq_cst) == 0 &&
           control(peer).left.load(std::memory_order_seq_cst) == 0;
  }
  /// While such an object exists, this rank may be reading buffers of peers, or writing to them.
  class UsingPeerBuffers {
   public:
    explicit UsingPeerBuffers(Peers& peers) : flag_(peers.own_control().uses_peer_buffers) {
      flag_.store(1, std::memory_order_seq_cst);
    }
    ~UsingPeerBuffers() { flag_.store(0, std::memory_order_release); }
    UsingPeerBuffers(const UsingPeerBuffers&) = delete;

   private:
    std::atomic<std::uint32_t>& flag_;
  };
  /// Waits for the peers that are using buffers of others. This rank has withdrawn its own buffers
  /// before: in their record, or by its failure. A peer either sees the withdrawal, or is seen here
  /// and waited for (a store before a load on both sides). Returns the peers that do not finish in
  /// time, as they have been stopped.
  std::vector<Rank> wait_for_users();
  /// Makes sure that the transport no longer reads the sources of data in flight to other hosts.
  void detach_sources();

 private:
  const Link& link(Rank peer) const { return *links_[peer]; }
  void push(Rank peer, const void* begin, std::size_t bytes);

  Transport& transport_;
  Transport& bell_;
  const shared::SharedMemory& memory_;
  const ByRank<int> world_ranks_;
  const Rank self_;
  std::byte* const segment_;
  ByRank<const Link*> links_;
  ByRank<const Link*> bells_;              // in the world
  std::vector<const Link*> mapped_bells_;  // of peers whose segments are mapped
  std::vector<Rank> others_, posted_, mapped_;
  Notes notes_;
};

}  // namespace capstan
