// How the executor sends and takes small messages, each in cache lines that carry their own notice
// of arrival.

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "core/control/cache_lines.hpp"
#include "core/control/packet.hpp"
#include "core/engine/executor/host_executor.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace capstan {
namespace {

/// A payload: a few words at most, not worth a call.
void copy_payload(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 8) return void(std::memcpy(to, from, 8));
  if (bytes == Packet::payload_bytes) return void(std::memcpy(to, from, Packet::payload_bytes));
  for (; bytes >= 8; to += 8, from += 8, bytes -= 8) std::memcpy(to, from, 8);
  for (; bytes > 0; --bytes) *to++ = *from++;
}

}  // namespace

/// The first regions, and what lies before them in the segments of this rank and its peers, all at
/// once: a call that meets a page that is not mapped takes up to fifty times as long, and if the
/// first ones do so, what is tried among them seems slow. A kernel that cannot do it maps page by
/// page. Among many ranks most would be mapped in vain.
void Executor::map_small_packets() {
  constexpr int many = 16;
  constexpr auto kind = SlotKind::small_packets;
  if (std::exchange(small_packets_mapped_, true) || peers_.count() > many) return;
  const SlotLayout& slots = layout_.slots();
  const std::uint64_t end =
      (layout_.first_slot() + slots.offset(kind, 0) + slots.between_regions(kind)).value();
  for (int rank = 0; rank < peers_.count(); ++rank)
    if (rank == self_)
      ::madvise(segment_, end, MADV_POPULATE_WRITE);
    else if (peers_.mapped(rank))
      ::madvise(const_cast<std::byte*>(peers_.segment(rank)), end, MADV_POPULATE_READ);
}

bool Executor::gather_packets(const BoundOp& op) {
  if (op.is_copy()) return copy_packets(op);
  const std::uint64_t each = plan_->packet_elements;
  for (std::uint64_t done = packet_index_ * each; done < op.count; done += each) {
    if (!gather_packet(op, std::min(each, op.count - done))) return false;
    ++packet_index_;
  }
  packet_index_ = 0;
  return true;
}

/// From a packet of the rank's own staging buffer to one of a later call, which is taken from its
/// former readers now, so that nothing waits for that then. 0: to none.
inline std::ptrdiff_t Executor::taken_ahead() const {
  constexpr std::size_t calls_ahead = 8;
  return plan_->slots == SlotKind::small_packets ? slots_.distance(plan_->slots, calls_ahead) : 0;
}

/// From a packet of a peer to one of a later call: a sender that waits for nobody is ahead.
inline std::ptrdiff_t Executor::fetched_ahead() const {
  constexpr std::size_t calls_ahead = 2;
  return plan_->guarantees.synchronizes ? 0 : slots_.distance(plan_->slots, calls_ahead);
}

/// What has been written to a packet of the rank's own staging buffer.
inline void Executor::send(std::byte* packet, std::ptrdiff_t ahead) {
  reinterpret_cast<Packet*>(packet)->publish(tag_);
  if (ahead != 0) take_line(packet + ahead);
}

/// Waits a little for a packet on a staging buffer.
inline bool Executor::arrives(int sender, const std::byte* at, std::ptrdiff_t ahead) {
  const auto& packet = *reinterpret_cast<const Packet*>(at);
  const auto come = [&] { return packet.arrived(tag_); };
  if (!come()) return comes(sender, come);
  if (ahead != 0) fetch_line(at + ahead);
  return true;
}

/// Most small calls consist of these.
bool Executor::copy_packet(const BoundOp& op) {
  const BoundOperand& destination = program_->operands[op.first_operand];
  const BoundOperand& source = (&destination)[1];
  const std::byte* const from = address(source);
  if (source.in_staging() && !arrives(source.owner, from, fetched_ahead())) return false;
  std::byte* const to = address(destination);
  if (to != from) copy_payload(to, from, op.count * plan_->element.value());
  if (destination.in_staging()) send(to, taken_ahead());
  return true;
}

/// Fetches none ahead: taken from a sender that is about to write them, many lines cost it more
/// than they gain.
inline bool Executor::copy_packets(const BoundOp& op) {
  const BoundOperand& destination = program_->operands[op.first_operand];
  const BoundOperand& source = (&destination)[1];
  const bool received = source.in_staging(), sent = destination.in_staging();
  if (!received && !sent && address(source) == address(destination)) return true;  // in place
  const std::ptrdiff_t taken = sent ? taken_ahead() : 0;
  const std::uint64_t from_step = packet_step(source), to_step = packet_step(destination);
  const std::uint64_t element = plan_->element.value(), each = plan_->packet_elements * element;
  const std::byte* from = packet_address(source);
  std::byte* to = packet_address(destination);
  std::uint64_t index = packet_index_, left = op.count * element - index * each;
  for (; left > 0; ++index) {
    if (received && !arrives(source.owner, from, 0)) {
      packet_index_ = index;
      return false;
    }
    const std::uint64_t bytes = std::min(each, left);
    if (to != from) copy_payload(to, from, bytes);
    if (sent) send(to, taken);
    left -= bytes;
    from += from_step;
    to += to_step;
  }
  packet_index_ = 0;
  return true;
}

/// One packet's worth of a gather: waits for it on peers' staging buffers, sends it on the own one.
bool Executor::gather_packet(const BoundOp& op, std::uint64_t count) {
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  const std::ptrdiff_t fetched = fetched_ahead();
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    const std::byte* const at = packet_address(sources[i]);
    if (sources[i].in_staging() && !arrives(sources[i].owner, at, fetched)) return false;
    sources_[i] = at;
  }

  std::byte* const first = packet_address(destinations[0]);
  std::byte* const second = op.destination_count == 2 ? packet_address(destinations[1]) : nullptr;
  plan_->reduce({.destination = first,
                 .second_destination = second,
                 .sources = sources_.data(),
                 .source_count = op.source_count,
                 .element_count = count,
                 .divisor = op.divisor,
                 .context = &plan_->user});
  const std::ptrdiff_t taken = taken_ahead();
  if (destinations[0].in_staging()) send(first, taken);
  if (second) send(second, taken);
  return true;
}

/// From where one packet's worth of an operand lies to that of the next packet.
std::uint64_t Executor::packet_step(const BoundOperand& operand) const {
  return operand.in_staging() ? sizeof(Packet) : plan_->packet_elements * plan_->element.value();
}

std::byte* Executor::packet_address(const BoundOperand& operand) const {
  return address(operand) + packet_index_ * packet_step(operand);
}

}  // namespace capstan
