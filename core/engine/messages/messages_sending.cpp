// SPDX-License-Identifier: Apache-2.0

// Messages on their way into the ring.

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/messages/messages.hpp"

namespace capstan {
namespace {

MessageFrame frame_of(const Messages::MessageTransfer& transfer) {
  const MessageType type = MessageType::of(transfer.type, transfer.foreign);
  return {.type_number = type.number,
          .type_named = type.named,
          .tag = transfer.tag,
          .size = transfer.size,
          .shape = transfer.shape};
}

/// By the clock that all processes of a host share.
std::uint64_t nanoseconds_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

/// Keeps the name of a message's elements for a receiver that expects others.
void Messages::note_elements(const MessageTransfer& transfer, const MessageType& type) {
  peers_.notes().keep(peers_.own_control(), type.note(), transfer.foreign.name);
  if (const Rank peer{transfer.peer}; peer != self_) peers_.notes().show(peers_, peer, type.note());
}

void Messages::send(TransferPointer transfer) {
  transfer->sends = true;
  ++pending_;
  const Rank peer{transfer->peer};
  MessageFrame frame = frame_of(*transfer);
  if (transfer->foreign.name) [[unlikely]]
    note_elements(*transfer, frame.type());
  if (peer == self_) return send_to_self(transfer, frame);
  const std::uint64_t size = transfer->size;
  const bool eager = size <= options_.eager.value(), in_pieces = travels_in_pieces(peer, size);
  if (eager) to_host(*transfer);
  if (eager && !in_pieces && credits_.take(peer, stored_bytes(size))) {
    frame.payload = static_cast<std::uint32_t>(size);
    if (send_at_once(peer, frame, transfer)) return;
    const std::byte* data = transfer->data;
    queue(peer, {frame, data, std::move(transfer)});
  } else if ((eager ? in_pieces : begins_at_once(*transfer)) &&
             credits_.take(peer, stored_bytes(size))) {
    const std::uint64_t fragment = fragment_of(*transfer);
    bool streams = false;
    if (size > fragment) {
      frame.kind = MessageFrame::Kind::begun;
      streams = streams_to(peer, frame);
    }
    frame.id = next_id_++;
    queue(peer, {frame, transfer->data, transfer, size, fragment, streams});
  } else {
    try {
      offer(transfer, frame);
    } catch (const Error&) {  // no host copy for a device
      return finish(transfer, std::current_exception(), self_.value(), transfer->tag, 0);
    }
    queue(peer, {frame});
  }
  write_frames(peer);
}

/// Whether even a message that is never offered travels in fragments: on one host, where the
/// receiver copies one while the sender writes the next, and where their stores are chosen.
bool Messages::travels_in_pieces(Rank peer, std::uint64_t size) const {
  constexpr std::uint64_t longest_piece = 4 << 10;
  return size > longest_piece && peers_.mapped(peer);
}

/// Whether a message travels in fragments unasked: to a rank on this host, which does not map it,
/// where all of it fits into the ring now. Then the sender may compute.
bool Messages::begins_at_once(const MessageTransfer& transfer) try {
  constexpr std::uint64_t most = 64 << 10;
  const Rank peer{transfer.peer};
  const std::uint64_t size = transfer.size, fragment = fragment_of(transfer);
  return peers_.mapped(peer) && !transfer.is_on_device() && size <= most &&
         outgoing_[peer].empty() && rings_.has_room(peer, size, (size + fragment - 1) / fragment) &&
         peers_.allocation_of(transfer.data, Bytes{size}) == 0;
} catch (const Error&) {  // what the peer says is wrong: the offer meets it again
  return false;
}

/// Whether a message that begins unasked goes past the cache. Where that is to be measured, its
/// receiver tells how long it took from now on.
bool Messages::streams_to(Rank peer, MessageFrame& frame) {
  auto& ways = ways_to_[peer];
  if (!ways) ways = std::make_unique<MessageWays>(MessageWays::Deciding::sender);
  const bool measured = ways->measures(frame.size);
  const MessageWay way = ways->next(frame.size);
  if (measured) {
    frame.address = nanoseconds_now();
    frame.memory = static_cast<std::uint64_t>(way);
  }
  return way == MessageWay::streamed_fragments;
}

/// Tells the sender of a message that has begun unasked how long it took, if the sender wants to
/// know and the receive waited for it.
void Messages::tell_time(const Incoming& incoming) {
  const MessageFrame& frame = incoming.frame;
  if (frame.kind != MessageFrame::Kind::begun || frame.address == 0 || incoming.error) return;
  queue(incoming.source, {MessageFrame{.kind = MessageFrame::Kind::timed,
                                       .size = frame.size,
                                       .address = nanoseconds_now() - frame.address,
                                       .memory = frame.memory}});
  write_frames(incoming.source);
}

void Messages::note_time(Rank source, const MessageFrame& frame) {
  const auto way = Foreign{self_, source}.enumerator("the way of a message", frame.memory,
                                                     MessageWay::streamed_fragments);
  if (auto& ways = ways_to_[source])
    ways->note(frame.size, way, std::chrono::nanoseconds{frame.address});
}

/// Sends a message to a peer that has mapped this rank's memory, where no other waits for room.
bool Messages::send_at_once(Rank peer, const MessageFrame& frame, const TransferPointer& transfer) {
  if (!peers_.mapped(peer) || !outgoing_[peer].empty() || !sending_[peer].empty()) return false;
  try {
    if (!rings_.write(peer, frame, transfer->data)) return false;
  } catch (const Error&) {  // what the peer says is wrong: fail_all() is to find the transfer
    queue(peer, {frame, transfer->data, transfer});
    throw;
  }
  rings_.show(peer);
  full_since_[peer] = {};
  finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
  return true;
}

/// A message to this rank itself is copied whatever its length, if it can be stored.
void Messages::send_to_self(const TransferPointer& transfer, MessageFrame& frame) {
  to_host(*transfer);
  if (first_posted(self_, frame.tag) == posted_.end() &&
      !credits_.has_room(self_, stored_bytes(frame.size))) {
    offer(transfer, frame);
    return arrive(self_, frame, {});
  }
  arrive(self_, frame, {.first = {transfer->data, transfer->size}});
  finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
}

void Messages::queue(Rank peer, Outgoing outgoing) {
  outgoing_[peer].push_back(std::move(outgoing));
  ++queued_;
}

/// The bytes of a message that travel together. On one host the receiver copies them out of the
/// ring while the next ones are copied in.
std::uint64_t Messages::fragment_of(const MessageTransfer& transfer) const {
  constexpr std::uint64_t shortest = 4 << 10, longest = 16 << 10;
  const std::uint64_t most = options_.ring.value() / 4;
  if (!peers_.mapped(Rank{transfer.peer})) return most;
  return std::min(most, std::clamp(std::bit_ceil(transfer.size) / 4, shortest, longest));
}

/// Writes a frame, or the next fragment of a message.
bool Messages::write_frame(Rank peer, Outgoing& outgoing) {
  MessageFrame& frame = outgoing.frame;
  const std::uint64_t length = std::min(outgoing.left, outgoing.fragment);
  if (outgoing.fragment > 0) frame.payload = static_cast<std::uint32_t>(length);
  if (!rings_.write(peer, frame, outgoing.payload, outgoing.streams)) return false;
  if (length > 0) {
    frame.kind = MessageFrame::Kind::fragment;
    outgoing.payload += length, outgoing.left -= length;
  }
  return true;
}

/// Writes frames to the ring as long as there is room.
bool Messages::write_frames(Rank peer) {
  auto& waiting = outgoing_[peer];
  bool moved = false;
  while (!waiting.empty() && write_frame(peer, waiting.front())) {
    moved = true;
    if (waiting.front().left > 0) continue;
    if (waiting.front().transfer) {
      sending_[peer].push_back(waiting.front().transfer);
      ++sending_count_;
    }
    waiting.pop_front();
    --queued_;
  }
  if (!moved) return false;
  full_since_[peer] = {};
  rings_.show(peer);
  finish_sent(peer);
  return true;
}

/// Finishes sends whose frames have left this host: such a send needs nothing more of this rank.
bool Messages::finish_sent(Rank peer) {
  if (sending_[peer].empty() || !(peers_.mapped(peer) || peers_.transport().pushed(peer)))
    return false;
  // A receiver in read_meanwhile() that reads what the caller stores next also sees the fragments.
  std::atomic_thread_fence(std::memory_order_release);
  for (const TransferPointer& transfer : take_sending(peer))
    finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
  full_since_[peer] = {};
  return true;
}

std::deque<Messages::TransferPointer> Messages::take_sending(Rank peer) {
  auto& sending = sending_[peer];
  sending_count_ -= sending.size();
  return std::exchange(sending, {});
}

bool Messages::is_sending(const TransferPointer& transfer) const {
  const auto& sending = sending_[Rank{transfer->peer}];
  return std::ranges::find(sending, transfer) != sending.end();
}

}  // namespace capstan
