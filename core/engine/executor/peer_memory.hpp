// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/segment.hpp"
#include "core/engine/executor/combiner.hpp"
#include "core/engine/executor/running_call.hpp"

namespace capstan {

/// Reads and writes buffers of peers where they are: by load and store where this process sees
/// them, through the kernel where it does not.
///
/// A peer may take its buffers back at any time, as its caller has cancelled the call. It then says
/// so in its segment, and waits for the ranks that are using them (see Peers::UsingPeerBuffers).
///
/// Used by one thread at a time.
class PeerMemory {
 public:
  PeerMemory(Peers& peers, const SegmentLayout& layout, CallLog& log, Combiner& combiner)
      : peers_(peers),
        transport_(peers.transport()),
        layout_(layout),
        log_(log),
        combiner_(combiner) {}

  /// Runs a gather with operands in buffers of peers. False when a peer has not entered the call
  /// yet, moves its buffers, or has taken them back: try again later. Throws Mismatch; Aborted when
  /// the result is lost, because a peer took its buffers back while this rank used them.
  bool gather(RunningCall& call, const HostOp& op);

  /// Whether the owner of a buffer has entered the call and offers the buffer.
  bool is_open(const BoundOperand& operand) const {
    const Rank owner = operand.owner;
    const bool is_input = operand.place == Place::peer_input;
    return log_.has_entered(owner) && peers_.buffers_valid(owner) &&
           !(is_input ? log_.input_of(owner) : log_.output_of(owner)).moves();
  }

 private:
  bool locate(const RunningCall& call, const HostOp& op);
  void combine(const RunningCall& call, const HostOp& op, std::byte* to, std::byte* second,
               std::uint64_t count);
  void gather_to_all(const RunningCall& call, const HostOp& op);
  bool gather_in_pieces(RunningCall& call, const HostOp& op);
  bool forward_result(const RunningCall& call, const HostOp& op);
  void make_room(std::uint64_t bytes);
  bool fetch_pieces(RunningCall& call, const HostOp& op, std::uint64_t at, std::uint64_t bytes,
                    std::size_t room);
  bool fetch(const RunningCall& call, const HostOp& op, std::size_t which, std::uint64_t at,
             void* to, std::uint64_t bytes);
  bool store(const RunningCall& call, const HostOp& op, std::size_t which, std::uint64_t at,
             const void* from, std::uint64_t bytes);
  void require_right(Rank owner, const char* call, int error) const;
  PeerBuffer buffer_of(const RunningCall& call, const BoundOperand& operand) const;
  std::uint64_t times_abandoned(const RunningCall& call, const HostOp& op) const;
  bool buffers_still_valid(const RunningCall& call, const HostOp& op,
                           std::uint64_t abandoned_before) const;

  Peers& peers_;
  Transport& transport_;
  const SegmentLayout layout_;
  CallLog& log_;
  Combiner& combiner_;
  // By operand of the current gather: its address in this process, or null; and its address in the
  // owner's memory.
  std::vector<std::byte*> mapped_;
  std::vector<PeerBuffer> at_owner_;
  std::vector<void*> further_;  // destinations after the first
  // Copies of operands that are not mapped, one piece of each. Nothing is written to them first:
  // the system gives their pages as calls come to use them.
  std::unique_ptr<std::byte[]> pieces_;
  std::uint64_t pieces_size_ = 0;
};

}  // namespace capstan
