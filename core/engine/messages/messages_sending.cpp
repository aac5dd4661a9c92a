// SPDX-License-Identifier: Apache-2.0

// Messages on their way into the ring.

#include <algorithm>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/messages/messages.hpp"

namespace capstan {
namespace {

MessageFrame frame_of(const Messages::MessageTransfer& transfer) {
  return {.type = MessageType::of(transfer.type, transfer.foreign).number,
          .tag = transfer.tag,
          .size = transfer.size,
          .shape = transfer.shape};
}

}  // namespace

void Messages::send(TransferPointer transfer) {
  transfer->sends = true;
  ++pending_;
  const Rank peer{transfer->peer};
  if (peer == self_) return send_to_self(transfer);
  MessageFrame frame = frame_of(*transfer);
  const std::uint64_t size = transfer->size;
  const bool eager = size <= options_.eager.value();
  if (eager) to_host(*transfer);
  if (eager && credits_.take(peer, stored_bytes(size))) {
    frame.payload = static_cast<std::uint32_t>(size);
    if (send_at_once(peer, frame, transfer)) return;
    const std::byte* data = transfer->data;
    queue(peer, {frame, data, std::move(transfer)});
  } else if (!eager && begins_at_once(*transfer) && credits_.take(peer, stored_bytes(size))) {
    const std::uint64_t fragment = fragment_of(*transfer);
    if (size > fragment) frame.kind = MessageFrame::Kind::begun;
    frame.id = next_id_++;
    queue(peer, {frame, transfer->data, transfer, size, fragment});
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

/// Whether a message travels in fragments unasked: to a rank on this host, which does not map it,
/// where all of it fits into the ring now. Then the sender may compute.
bool Messages::begins_at_once(const MessageTransfer& transfer) try {
  constexpr std::uint64_t most = 64 << 10;
  const Rank peer{transfer.peer};
  const std::uint64_t size = transfer.size, fragment = fragment_of(transfer);
  return peers_.mapped(peer) && !transfer.stage && size <= most && outgoing_[peer].empty() &&
         rings_.has_room(peer, size, (size + fragment - 1) / fragment) &&
         peers_.allocation_of(transfer.data, Bytes{size}) == 0;
} catch (const Error&) {  // what the peer says is wrong: the offer meets it again
  return false;
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
void Messages::send_to_self(const TransferPointer& transfer) {
  MessageFrame frame = frame_of(*transfer);
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
  constexpr std::uint64_t is_short = 32 << 10;
  const std::uint64_t most = options_.ring.value() / 4;
  if (!peers_.mapped(Rank{transfer.peer})) return most;
  return std::min<std::uint64_t>(most, transfer.size <= is_short ? 8 << 10 : 16 << 10);
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
