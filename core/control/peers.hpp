#pragma once

#include <vector>

#include "core/control/segment.hpp"
#include "core/control/shared_memory.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The peers of one rank of a communicator: it reads their segments, wakes them, and keeps track of
/// which ranks use buffers of others at this moment.
///
/// Used by one thread at a time.
class Peers {
 public:
  /// `world_ranks[r]` is the rank of peer r in the world. A rank sleeps on the transport of the
  /// world, `bell`. `memory` belongs to the world, too.
  Peers(Transport& transport, Transport& bell, const shared::SharedMemory& memory,
        std::vector<int> world_ranks, Rank self);

  int self() const { return self_; }
  int count() const { return static_cast<int>(links_.size()); }
  Transport& transport() { return transport_; }

  std::byte* own_segment() { return segment_; }
  const std::byte* segment(int peer) const { return link(peer).segment; }
  /// The same memory, mapped so that long reads are faster; see Link::taken_from.
  const std::byte* segment_for_long_reads(int peer) const {
    const Link& to = link(peer);
    return to.taken_from ? to.taken_from : to.segment;
  }
  Control& own_control() { return control_of(segment_); }
  const Control& control(int peer) const { return control_of(segment(peer)); }

  /// Whether the peer's segment is the peer's own memory. Otherwise it is a mirror of what the peer
  /// has shown to this rank.
  bool mapped(int peer) const { return link(peer).mapped; }
  /// The peers whose segments are not mapped.
  const std::vector<int>& posted() const { return posted_; }

  /// Sends a part of the own segment, with the next wake, to a peer that has not mapped it.
  void show(int peer, const void* begin, std::size_t bytes) {
    if (!mapped(peer)) push(peer, begin, bytes);
  }
  template <class Object>
  void show(int peer, const Object& object) {
    show(peer, &object, sizeof object);
  }
  /// Makes the peer look at what has been published and shown.
  void wake(int peer) {
    if (mapped(peer))
      bell_.wake(*bells_[static_cast<std::size_t>(peer)]);
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
  std::byte* view(int peer, shared::AllocationId id, std::uint64_t address, Bytes size) const {
    return memory_.view(world_ranks_[static_cast<std::size_t>(peer)], id, address, size);
  }
  /// The allocation of this rank that a buffer is in; 0: none that peers may map.
  shared::AllocationId allocation_of(const void* buffer, Bytes size) const {
    return memory_.id_of(buffer, size);
  }

  /// Whether the buffers that a peer has exposed may still be used. A peer publishes its failure,
  /// or that it leaves, before it gives buffers back to its caller while others may be using them.
  bool buffers_valid(int peer) const {
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
  /// Waits for the peers that are using buffers of others, after this rank has withdrawn its own:
  /// in their record, or by its failure. A peer either sees that, or is seen here and waited for (a
  /// store before a load on both sides). Returns the peers that do not end in time, as they have
  /// been stopped.
  std::vector<int> wait_for_users();
  /// Makes sure that what is being sent to other hosts is no longer read from its source.
  void detach_sources();

 private:
  const Link& link(int peer) const { return *links_[static_cast<std::size_t>(peer)]; }
  void push(int peer, const void* begin, std::size_t bytes);

  Transport& transport_;
  Transport& bell_;
  const shared::SharedMemory& memory_;
  const std::vector<int> world_ranks_;  // by rank
  std::vector<const Link*> bells_;      // by rank, of the world
  std::vector<const Link*> mapped_bells_;
  const int self_;
  std::byte* const segment_;
  std::vector<const Link*> links_;  // by rank
  std::vector<int> posted_;
};

}  // namespace capstan
