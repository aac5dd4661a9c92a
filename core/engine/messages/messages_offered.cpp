// SPDX-License-Identifier: Apache-2.0

// Messages that stay at their sender until a receive matches them (rendezvous).

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/messages/messages.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t pull_at_once = 1 << 20;

}  // namespace

void Messages::offer(const TransferPointer& transfer, MessageFrame& frame) {
  frame.kind = MessageFrame::Kind::offer;
  frame.id = transfer->id = next_id_++;
  const Rank peer{transfer->peer};
  if (peer == self_ || peers_.mapped(peer)) {
    to_host(*transfer);
    frame.memory = peers_.allocation_of(transfer->data, Bytes{transfer->size});
    frame.address = reinterpret_cast<std::uint64_t>(transfer->data);
  } else {
    expose(*transfer, frame);
  }
  offered_[frame.id] = transfer;
}

/// Has a network card read the message, out of a device or else out of a host copy.
void Messages::expose(MessageTransfer& transfer, MessageFrame& frame) {
  const auto expose = [&] {
    const MemoryKind kind = transfer.is_on_device() ? MemoryKind::device : MemoryKind::host;
    transfer.exposed =
        peers_.transport().expose(Rank{transfer.peer}, transfer.data, Bytes{transfer.size}, kind);
  };
  if (options_.read_remote && transfer.size > 0) expose();
  if (!transfer.exposed && transfer.is_on_device()) {
    to_host(transfer);
    if (options_.read_remote) expose();
  }
  if (!transfer.exposed) return;
  frame.memory = transfer.exposed->key();
  frame.address = transfer.exposed->address();
}

void Messages::to_host(MessageTransfer& transfer) {
  if (!transfer.is_on_device()) return;
  std::exchange(transfer.special->stage, nullptr)(transfer);
}

bool Messages::may_stay_on_device(const MessageTransfer& transfer) const {
  const bool any = transfer.peer == any_source;
  const bool leaves_host = any ? !peers_.posted().empty()
                               : transfer.peer >= 0 && transfer.peer < ranks_ &&
                                     Rank{transfer.peer} != self_ &&
                                     !peers_.mapped(Rank{transfer.peer});
  return leaves_host && options_.read_remote && transfer.size > options_.eager.value() &&
         peers_.transport().reaches_devices();
}

/// Receives what this rank has offered to itself.
void Messages::take_own(const TransferPointer& transfer, const MessageFrame& frame) {
  const MessageTransfer& sent = *offered_.at(frame.id);
  std::exception_ptr error;
  try {
    to_host(*transfer);
    std::copy_n(sent.data, sent.size, transfer->data);
  } catch (const Error&) {  // no host copy for a device: the message is dropped
    error = std::current_exception();
  }
  end_offer(self_, frame.id);
  finish(transfer, error, self_.value(), frame.tag, frame.size);
}

/// An offer to a peer, which has answered it; null if it has ended otherwise.
Messages::TransferPointer Messages::take_offer(Rank peer, std::uint64_t id) {
  const auto found = offered_.find(id);
  if (found == offered_.end()) return nullptr;
  const TransferPointer transfer = found->second;
  Foreign{self_, peer}.require(Rank{transfer->peer} == peer, "the offer that it has been made", id);
  offered_.erase(found);
  return transfer;
}

/// Completes an offer of this rank that has been received, or dropped.
void Messages::end_offer(Rank peer, std::uint64_t id) {
  if (const TransferPointer transfer = take_offer(peer, id))
    finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
}

/// Tells the sender of an offer that its message has been read, or is dropped. False while there is
/// no room for it in the ring. The receive ends after it only: this rank may not call again, and
/// the sender waits for it. No order is kept with the frames that wait for room.
bool Messages::acknowledge(const Incoming& incoming) {
  const MessageFrame frame{.kind = MessageFrame::Kind::acknowledged, .id = incoming.frame.id};
  if (incoming.in_fragments) return true;
  if (!rings_.write(incoming.source, frame, nullptr)) return false;
  rings_.show(incoming.source);
  return true;
}

void Messages::finish(const Incoming& incoming) {
  const MessageFrame& frame = incoming.frame;
  finish(incoming.transfer, incoming.error, incoming.source.value(), frame.tag, frame.size);
}

/// Reads the next part of an offer; true if there was any progress.
bool Messages::pull(Incoming& incoming) {
  if (incoming.in_fragments) return read_meanwhile(incoming);
  MessageTransfer& transfer = *incoming.transfer;
  if (transfer.read) return take_in(incoming);
  try {
    if (start_read(incoming)) return true;
  } catch (const Error&) {  // no host copy for a device: the message is dropped
    incoming.error = std::current_exception();
    return true;
  }
  if (incoming.began == Time{} && transfer.done == 0 && !begin_pull(incoming)) return true;
  const std::uint64_t length = std::min(pull_at_once, incoming.frame.size - transfer.done);
  if (read_offer(incoming, transfer.done, length)) {
    transfer.done += length;
    transfer.since = {};
    return true;
  }
  if (!peers_.buffers_valid(incoming.source)) return false;  // check() ends it with the cause
  ask_for_fragments(incoming);
  return true;
}

/// Whether this rank reads the memory of a sender on this host: where it has mapped it, where that
/// is the fastest way, and where the sender may not run at the same time. Else it has asked for
/// fragments.
bool Messages::begin_pull(Incoming& incoming) {
  const MessageFrame& frame = incoming.frame;
  if (!options_.read_remote || options_.reads_alone || !peers_.mapped(incoming.source) ||
      frame.memory != 0)
    return true;
  auto& ways = ways_[incoming.source];
  if (!ways) ways = std::make_unique<MessageWays>(MessageWays::Deciding::receiver);
  incoming.began = Time::clock::now();
  incoming.way = ways->next(frame.size);
  if (incoming.way == MessageWay::read) return true;
  ask_for_fragments(incoming);
  return false;
}

void Messages::note_way(const Incoming& incoming) {
  if (incoming.began == Time{} || incoming.error) return;
  ways_[incoming.source]->note(incoming.frame.size, incoming.way,
                               Time::clock::now() - incoming.began);
}

void Messages::ask_for_fragments(Incoming& incoming) {
  incoming.in_fragments = true;
  incoming.transfer->done = 0;
  queue(incoming.source,
        {MessageFrame{.kind = MessageFrame::Kind::stream,
                      .tag = incoming.way == MessageWay::streamed_fragments ? 1 : 0,
                      .id = incoming.frame.id}});
  write_frames(incoming.source);
}

/// Reads the memory of a sender that computes, and so sends no fragments. The bytes are valid only
/// if no fragment has arrived when the read ends: the send is not complete then, and its buffer has
/// not changed.
bool Messages::read_meanwhile(Incoming& incoming) {
  constexpr std::chrono::microseconds patience{50};
  MessageTransfer& transfer = *incoming.transfer;
  const std::uint64_t size = incoming.frame.size;
  if (incoming.began == Time{} || transfer.done > 0 || incoming.read == size) return false;
  const Time since = std::max(incoming.began, answered_[incoming.source]);
  if (Time::clock::now() - since < patience) return false;
  const std::uint64_t length = std::min(pull_at_once, size - incoming.read);
  const bool can = read_offer(incoming, incoming.read, length);
  incoming.read = can ? incoming.read + length : size;  // never again
  if (!can || incoming.read < size) return can;
  read_frames(incoming.source);
  if (transfer.done > 0) return true;
  transfer.done = size;
  incoming.in_fragments = false;
  return true;
}

/// Has this rank's network card read an offer. False where it cannot: then the message comes into
/// host memory.
bool Messages::start_read(const Incoming& incoming) {
  MessageTransfer& transfer = *incoming.transfer;
  const MessageFrame& frame = incoming.frame;
  const bool can = options_.read_remote && !peers_.mapped(incoming.source) && frame.memory != 0;
  const auto start = [&] {
    const MemoryKind kind = transfer.is_on_device() ? MemoryKind::device : MemoryKind::host;
    transfer.read = peers_.transport().start_read(incoming.source, frame.address, frame.memory,
                                                  transfer.data, Bytes{frame.size}, kind);
  };
  if (can) start();
  if (!transfer.read && transfer.is_on_device()) {
    to_host(transfer);
    if (can) start();
  }
  return transfer.read != nullptr;
}

/// A read that has failed is left to check(), which knows the cause.
bool Messages::take_in(Incoming& incoming) {
  MessageTransfer& transfer = *incoming.transfer;
  if (transfer.read->failed) return false;
  const std::uint64_t done = incoming.frame.size - transfer.read->left;
  const bool moved = done != transfer.done;
  transfer.done = done;
  if (!moved) return false;
  transfer.since = {};
  constexpr std::chrono::milliseconds interval{100};
  const Time now = Time::clock::now();
  if (incoming.told == Time{}) incoming.told = now;
  if (!incoming.complete() && now - incoming.told > interval &&
      rings_.write(incoming.source, {.kind = MessageFrame::Kind::reading}, nullptr)) {
    rings_.show(incoming.source);
    incoming.told = now;
  }
  return true;
}

/// Reads the next bytes of an offered message. False if the sender's memory cannot be read, or may
/// have been given back to its owner meanwhile.
bool Messages::read_offer(const Incoming& incoming, std::uint64_t offset, std::uint64_t length) {
  if (!options_.read_remote || !peers_.mapped(incoming.source)) return false;
  const MessageTransfer& transfer = *incoming.transfer;
  const Peers::UsingPeerBuffers using_them{peers_};
  if (!peers_.buffers_valid(incoming.source)) return false;
  const std::uint64_t from = incoming.frame.address + offset;
  std::byte* const to = transfer.data + offset;
  const auto allocation = static_cast<shared::AllocationId>(
      Foreign{self_, incoming.source}.at_most("the allocation of a message", incoming.frame.memory,
                                              std::numeric_limits<shared::AllocationId>::max()));
  const std::byte* const seen = peers_.view(incoming.source, allocation, from, Bytes{length});
  if (seen) kernels::copy(to, seen, length, false);
  const bool read =
      seen || peers_.transport().read_remote(incoming.source, from, to, Bytes{length});
  // A sender that could not wait for this rank has published its failure before it continued.
  std::atomic_thread_fence(std::memory_order_acquire);
  return read && peers_.buffers_valid(incoming.source);
}

/// Sends a message in fragments: its receiver cannot read this rank's memory.
void Messages::stream(Rank peer, const MessageFrame& asked) {
  const TransferPointer transfer = take_offer(peer, asked.id);
  if (!transfer) return;
  transfer->exposed.reset();
  try {
    to_host(*transfer);
  } catch (const Error&) {  // the communicator fails, and with it this send
    offered_[asked.id] = transfer;
    throw;
  }
  queue(peer, {MessageFrame{.kind = MessageFrame::Kind::fragment, .id = asked.id}, transfer->data,
               transfer, transfer->size, fragment_of(*transfer), asked.tag != 0});
}

/// The receiver has read the message meanwhile: it waits for no more fragments.
void Messages::end_fragments(Rank peer, std::uint64_t id) {
  auto& waiting = outgoing_[peer];
  const auto found = std::ranges::find_if(waiting, [&](const Outgoing& outgoing) {
    return outgoing.frame.kind == MessageFrame::Kind::fragment && outgoing.frame.id == id;
  });
  if (found == waiting.end()) return;
  const TransferPointer transfer = found->transfer;
  waiting.erase(found);
  --queued_;
  finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
}

void Messages::receive_fragment(Rank source, const MessageFrame& frame, const Payload& payload) {
  const auto found = std::ranges::find_if(incoming_, [&](const Incoming& incoming) {
    return incoming.source == source && incoming.frame.id == frame.id;
  });
  if (found == incoming_.end()) return store_fragment(source, frame, payload);
  if (found->complete()) return;
  MessageTransfer& transfer = *found->transfer;
  const Foreign theirs{self_, source};
  theirs.require(found->in_fragments, "the message that it was asked for", frame.id);
  theirs.at_most("the length of a fragment", frame.payload, found->frame.size - transfer.done);
  payload.copy_to(transfer.data + transfer.done);
  transfer.done += frame.payload;
  transfer.since = {};
  if (found->began != Time{} && found->complete()) answered_[source] = Time::clock::now();
}

/// A piece of a message that nobody has asked for yet; or of one that was dropped.
void Messages::store_fragment(Rank source, const MessageFrame& frame, const Payload& payload) {
  const auto found = std::ranges::find_if(unexpected_, [&](const Unexpected& message) {
    return message.source == source && message.frame.id == frame.id &&
           message.frame.kind == MessageFrame::Kind::begun;
  });
  if (found == unexpected_.end()) return;
  Foreign{self_, source}.at_most("the length of a fragment", frame.payload,
                                 found->frame.size - found->arrived);
  payload.copy_to(found->payload.get() + found->arrived);
  found->arrived += frame.payload;
}

}  // namespace capstan
