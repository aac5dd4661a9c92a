// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/engine/control/cache_lines.hpp"
#include "core/engine/control/packet.hpp"
#include "core/engine/executor/arrival_poll.hpp"
#include "core/engine/executor/running_call.hpp"
#include "core/engine/executor/slot_ring.hpp"

namespace capstan {

/// Runs operations of packet protocols: waits for packets on staging buffers of peers, and sends
/// packets by writing them to the rank's own staging buffer. A packet carries data and a tag in one
/// cache line, so that it needs no signal.
///
/// Used by one thread at a time.
class PacketLane {
 public:
  PacketLane(const ArrivalPoll& poll, const SlotRing& slots) : poll_(poll), slots_(slots) {}

  /// `call`: number of the call that begins.
  void begin_call(const Plan& plan, std::uint64_t call) {
    index_ = 0;
    tag_ = packet_tag(call, static_cast<std::uint32_t>(plan.digest));
  }

  /// Runs a copy of at most one packet. False: its source has not arrived. Most small calls consist
  /// of these.
  bool copy_packet(const RunningCall& call, const HostOp& op) {
    const BoundOperand& destination = call.program->operands[op.first_operand];
    const BoundOperand& source = (&destination)[1];
    const std::byte* const from = call.address(source);
    if (source.in_staging() && !receive(source.owner, from, prefetch_distance(*call.plan)))
      return false;
    std::byte* const to = call.address(destination);
    if (to != from) copy_payload(to, from, op.count * call.plan->element.value());
    if (destination.in_staging()) send(to, write_prefetch_distance(*call.plan));
    return true;
  }
  /// Runs a gather of any length as far as its packets have arrived; true when it is complete.
  bool gather(RunningCall& call, const HostOp& op);

  /// Packets of the current gather that are done.
  std::uint64_t packets_done() const { return index_; }
  /// Whether the packet of a staging buffer that the current gather needs next is here.
  bool has_arrived(const RunningCall& call, const BoundOperand& operand) const {
    return packet_at(packet_address(call, operand)).arrived(tag_);
  }

 private:
  static const Packet& packet_at(const std::byte* at) {
    return *reinterpret_cast<const Packet*>(at);
  }
  /// Copies a few words at most: not worth a call of memcpy.
  static void copy_payload(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (bytes == 8) return void(std::memcpy(to, from, 8));
    if (bytes == Packet::payload_bytes) return void(std::memcpy(to, from, Packet::payload_bytes));
    for (; bytes >= 8; to += 8, from += 8, bytes -= 8) std::memcpy(to, from, 8);
    for (; bytes > 0; --bytes) *to++ = *from++;
  }

  /// The number of calls between the prefetch of a packet's line and its use.
  struct CallsAhead {
    std::size_t read, write;
  };
  /// Slots of tiny packets lie close together. There the reader's processor prefetches the next few
  /// slots by itself, and so takes their lines from the writer. The writer therefore prefetches one
  /// call ahead only: it takes a line back after the reader's processor has had it. The reader
  /// prefetches eight calls ahead, beyond what the writer needs next.
  // measured: docs/lab-notebook.md#stolen-lines, docs/lab-notebook.md#fetch-ahead
  static constexpr CallsAhead calls_ahead(SlotKind kind) {
    return kind == SlotKind::tiny_packets ? CallsAhead{.read = 8, .write = 1}
                                          : CallsAhead{.read = 2, .write = 8};
  }
  /// The distance from a packet of a peer to its packet of a later call, which is prefetched: a
  /// sender that waits for no peer runs ahead. 0: nothing is prefetched.
  std::ptrdiff_t prefetch_distance(const Plan& plan) const {
    if (plan.guarantees.synchronizes) return 0;
    return slots_.distance(plan.slots, calls_ahead(plan.slots).read);
  }
  /// The distance from a packet of the own staging buffer to the packet of a later call, which is
  /// prefetched for writing: the later store then need not wait for former readers to give up the
  /// line.
  std::ptrdiff_t write_prefetch_distance(const Plan& plan) const {
    return is_small(plan.slots) ? slots_.distance(plan.slots, calls_ahead(plan.slots).write) : 0;
  }
  /// Publishes a packet of the own staging buffer, whose payload has been written.
  void send(std::byte* packet, std::ptrdiff_t write_prefetch) const {
    reinterpret_cast<Packet*>(packet)->publish(tag_);
    if (write_prefetch != 0) prefetch_for_write(packet + write_prefetch);
  }
  /// Polls briefly for a packet on a staging buffer.
  bool receive(Rank sender, const std::byte* at, std::ptrdiff_t prefetch) const {
    const auto is_here = [&] { return packet_at(at).arrived(tag_); };
    if (!is_here()) return poll_.until(sender, is_here);
    if (prefetch != 0) prefetch_for_read(at + prefetch);
    return true;
  }
  static void prefetch_other_packets(const RunningCall& call, const HostOp& op);
  bool copy_packets(const RunningCall& call, const HostOp& op);
  bool reduce_packet(RunningCall& call, const HostOp& op, std::uint64_t count);
  static std::uint64_t packet_step(const RunningCall& call, const BoundOperand& operand);
  std::byte* packet_address(const RunningCall& call, const BoundOperand& operand) const {
    return call.address(operand) + index_ * packet_step(call, operand);
  }

  const ArrivalPoll& poll_;
  const SlotRing& slots_;
  std::uint64_t tag_ = 0;    // of all packets of the call
  std::uint64_t index_ = 0;  // of the next packet of the current gather
};

}  // namespace capstan
