#pragma once

#include <vector>

#include "core/control/segment.hpp"
#include "core/control/shared_memory.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The peers of one rank of a communicator: where their segments are seen, how they are told of
/// something, and who reads whose buffers at this moment.
///
/// Used by one thread at a time.
class Peers {
 public:
  /// `world_ranks[r]` is the rank of peer r in the world, whose transport `bell` is slept on, and
  /// to which `memory` belongs.
  Peers(Transport& transport, Transport& bell, const shared::SharedMemory& memory,
        std::vector<int> world_ranks, Rank self);

  int self() const { return self_; }
  int count() const { return static_cast<int>(links_.size()); }
  Transport& transport() { return transport_; }

  std::byte* own_segment() { return segment_; }
  const std::byte* segment(int peer) const { return link(peer).segment; }
  /// Where long reads of the peer's segment are faster.
  const std::byte* taken_from(int peer) const {
    const Link& way = link(peer);
    return way.taken_from ? way.taken_from : way.segment;
  }
  Control& own_control() { return control_of(segment_); }
  const Control& control(int peer) const { return control_of(segment(peer)); }

  /// Whether the peer's segment is its very memory. Otherwise it is a mirror of what the peer has
  /// shown to this rank.
  bool mapped(int peer) const { return link(peer).mapped; }
  /// Those for which it is not.
  const std::vector<int>& posted() const { return posted_; }

  /// Shows a part of the own segment to a peer that cannot see it, with the next wake.
  void show(int peer, const void* begin, std::size_t bytes) {
    if (!mapped(peer)) push(peer, begin, bytes);
  }
  template <class Object>
  void show(int peer, const Object& object) {
    show(peer, &object, sizeof object);
  }
  /// The peer looks for what has been published and shown.
  void wake(int peer) {
    if (mapped(peer))
      bell_.wake(*bells_[static_cast<std::size_t>(peer)]);
    else
      transport_.wake(link(peer));
  }
  /// Those that see this rank's memory.
  void wake_mapped() {
    for (const Link* const bell : mapped_bells_) bell_.wake(*bell);
  }
  void wake_all();
  /// Shows everybody that this rank has left or given up, and what it had finished.
  void show_end();

  /// Where memory of a peer is seen in this process; null where it is not.
  std::byte* view(int peer, shared::AllocationId id, std::uint64_t address, Bytes size) const {
    return memory_.view(world_ranks_[static_cast<std::size_t>(peer)], id, address, size);
  }
  /// The own allocation that a buffer is in, for peers; 0: none that they may see.
  shared::AllocationId allocation_of(const void* buffer, Bytes size) const {
    return memory_.id_of(buffer, size);
  }

  /// Whether the buffers that a peer has offered for reading are still its to offer. When it gives
  /// them back to its caller before it is sure that they have been read, it says so before.
  bool stands(int peer) const {
    return control(peer).abort.kind.load(std::memory_order_seq_cst) == 0 &&
           control(peer).left.load(std::memory_order_seq_cst) == 0;
  }
  /// While it lives, this rank may be reading buffers of peers, or writing to them.
  class InTheirBuffers {
   public:
    explicit InTheirBuffers(Peers& peers) : flag_(peers.own_control().in_their_buffers) {
      flag_.store(1, std::memory_order_seq_cst);
    }
    ~InTheirBuffers() { flag_.store(0, std::memory_order_release); }
    InTheirBuffers(const InTheirBuffers&) = delete;

   private:
    std::atomic<std::uint32_t>& flag_;
  };
  /// Buffers of this rank have been withdrawn: by a record, or because it no longer stands. A peer
  /// either sees that, or is seen in them here and waited for. Those that have been stopped
  /// meanwhile, and are no longer waited for, are returned.
  std::vector<int> wait_for_users();
  /// What is being sent to other hosts is no longer read where it is.
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
