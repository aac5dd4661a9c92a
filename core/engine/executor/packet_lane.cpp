// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/packet_lane.hpp"

#include <algorithm>

namespace capstan {

bool PacketLane::gather(RunningCall& call, const HostOp& op) {
  if (op.is_copy()) return copy_packets(call, op);
  const std::uint64_t each = call.plan->packet_elements;
  for (std::uint64_t done = index_ * each; done < op.count; done += each) {
    if (!reduce_packet(call, op, std::min(each, op.count - done))) return false;
    ++index_;
  }
  index_ = 0;
  return true;
}

/// Prefetches no packets of peers. A prefetch takes the lines from a sender that is about to write
/// them: for many lines that costs the sender more than the receiver gains.
bool PacketLane::copy_packets(const RunningCall& call, const HostOp& op) {
  const BoundOperand& destination = call.program->operands[op.first_operand];
  const BoundOperand& source = (&destination)[1];
  const bool received = source.in_staging(), sent = destination.in_staging();
  if (!received && !sent && call.address(source) == call.address(destination)) return true;
  const std::ptrdiff_t write_prefetch = sent ? write_prefetch_distance(*call.plan) : 0;
  const std::uint64_t from_step = packet_step(call, source);
  const std::uint64_t to_step = packet_step(call, destination);
  const std::uint64_t element = call.plan->element.value();
  const std::uint64_t each = call.plan->packet_elements * element;
  const std::byte* from = packet_address(call, source);
  std::byte* to = packet_address(call, destination);
  std::uint64_t index = index_, left = op.count * element - index * each;
  for (; left > 0; ++index) {
    if (received && !receive(source.owner, from, 0)) {
      index_ = index;
      return false;
    }
    const std::uint64_t bytes = std::min(each, left);
    if (to != from) copy_payload(to, from, bytes);
    if (sent) send(to, write_prefetch);
    left -= bytes;
    from += from_step;
    to += to_step;
  }
  index_ = 0;
  return true;
}

/// Prefetches the packets that follow the first ones of all messages, which have arrived. Without
/// this, a reduction would wait for each one in turn: between two packets it runs more instructions
/// than a processor looks ahead. The number is limited, as a sender that is still writing has to
/// take its lines back.
// measured: docs/lab-notebook.md#packets-that-wait-in-turn
void PacketLane::prefetch_other_packets(const RunningCall& call, const HostOp& op) {
  constexpr int most_lines = 32;
  int lines_left = most_lines;
  const std::uint64_t each = call.plan->packet_elements;
  const BoundOperand* const sources =
      &call.program->operands[op.first_operand] + op.destination_count;
  for (std::uint64_t packet = 1; packet * each < op.count; ++packet) {
    for (std::uint32_t i = 0; i < op.source_count; ++i) {
      if (!sources[i].in_staging()) continue;
      if (lines_left-- == 0) return;
      prefetch_for_read(call.address(sources[i]) + packet * sizeof(Packet));
    }
  }
}

/// Runs one packet's worth of a reduction, of `count` elements.
bool PacketLane::reduce_packet(RunningCall& call, const HostOp& op, std::uint64_t count) {
  const BoundOperand* const destinations = &call.program->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  const std::ptrdiff_t prefetch = prefetch_distance(*call.plan);
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    const std::byte* const at = packet_address(call, sources[i]);
    if (sources[i].in_staging() && !receive(sources[i].owner, at, prefetch)) return false;
    call.sources[i] = at;
  }
  if (index_ == 0 && op.count > count) prefetch_other_packets(call, op);

  std::byte* const first = packet_address(call, destinations[0]);
  std::byte* const second =
      op.destination_count == 2 ? packet_address(call, destinations[1]) : nullptr;
  call.plan->reduce({.destination = first,
                     .second_destination = second,
                     .sources = call.sources.data(),
                     .source_count = op.source_count,
                     .element_count = count,
                     .divisor = op.divisor,
                     .context = &call.plan->user});
  const std::ptrdiff_t write_prefetch = write_prefetch_distance(*call.plan);
  if (destinations[0].in_staging()) send(first, write_prefetch);
  if (second) send(second, write_prefetch);
  return true;
}

/// The distance from one packet's worth of an operand to the next.
std::uint64_t PacketLane::packet_step(const RunningCall& call, const BoundOperand& operand) {
  return operand.in_staging() ? sizeof(Packet)
                              : call.plan->packet_elements * call.plan->element.value();
}

}  // namespace capstan
