// SPDX-License-Identifier: Apache-2.0
#include "core/engine/messages/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/control/peers.hpp"

namespace capstan {
namespace {

template <class Error, class... Args>
std::exception_ptr error_of(fmt::format_string<Args...> text, Args&&... args) {
  return std::make_exception_ptr(Error(fmt::format(text, std::forward<Args>(args)...)));
}

MessageType type_of(const Messages::MessageTransfer& transfer) {
  return MessageType::of(transfer.type, transfer.foreign);
}

MessageFrame frame_of(const Messages::MessageTransfer& transfer) {
  return {.type = type_of(transfer).number,
          .tag = transfer.tag,
          .size = transfer.size,
          .shape = transfer.shape};
}

}  // namespace

Messages::Messages(Peers& peers, Bytes offset, const Options& options)
    : peers_(peers),
      self_(peers.self()),
      ranks_(peers.count()),
      options_(options),
      rings_(peers, offset + Credits::area(peers.count()), options.ring),
      credits_(peers, offset, options.unexpected),
      outgoing_(ranks_),
      sending_(ranks_),
      full_since_(ranks_),
      takes_offers_(ranks_),
      ways_(ranks_),
      answered_(ranks_) {}

Bytes Messages::area(int ranks, Bytes ring) {
  return Credits::area(ranks) + Rings::area(ranks, ring);
}

void Messages::check_arguments(const MessageTransfer& transfer, const char* call) const {
  const bool any = !transfer.sends && transfer.peer == any_source;
  if (!any && (transfer.peer < 0 || transfer.peer >= ranks_))
    throw InvalidArgument(fmt::format("rank {}: {} rank {}: ranks are 0 to {}", self_.value(), call,
                                      transfer.peer, ranks_ - 1));
  const bool any_tag_given = !transfer.sends && transfer.tag == any_tag;
  if (!any_tag_given && !transfer.forms_group && (transfer.tag < 0 || transfer.tag > largest_tag))
    throw InvalidArgument(fmt::format("rank {}: {} rank {} with tag {}: tags are 0 to {}",
                                      self_.value(), call, transfer.peer, transfer.tag,
                                      largest_tag));
}

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
bool Messages::begins_at_once(const MessageTransfer& transfer) {
  constexpr std::uint64_t most = 64 << 10;
  const Rank peer{transfer.peer};
  const std::uint64_t size = transfer.size, fragment = fragment_of(transfer);
  return peers_.mapped(peer) && !transfer.stage && size <= most && outgoing_[peer].empty() &&
         rings_.has_room(peer, size, (size + fragment - 1) / fragment) &&
         peers_.allocation_of(transfer.data, Bytes{size}) == 0;
}

/// Sends a message to a peer that has mapped this rank's memory, where no other waits for room.
bool Messages::send_at_once(Rank peer, const MessageFrame& frame, const TransferPointer& transfer) {
  if (!peers_.mapped(peer) || !outgoing_[peer].empty() || !sending_[peer].empty() ||
      !rings_.write(peer, frame, transfer->data))
    return false;
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

void Messages::receive(TransferPointer transfer) {
  transfer->sends = false;
  ++pending_;
  const auto found = std::ranges::find_if(unexpected_, [&](const Unexpected& message) {
    return matches(*transfer, message.source, message.frame.tag);
  });
  if (found == unexpected_.end()) return posted_.push_back(std::move(transfer));
  Unexpected message = take_unexpected(found);
  accept(transfer, message.source, message.frame,
         {.first = {message.payload.get(), message.arrived}});
  spare_.give_back(std::move(message.payload), message.frame.size);
}

/// A message in fragments that are all here is like any other.
Messages::Unexpected Messages::take_unexpected(std::list<Unexpected>::iterator found) {
  Unexpected message = std::move(*found);
  unexpected_.erase(found);
  if (message.frame.kind == MessageFrame::Kind::offer) return message;
  const Bytes bytes = stored_bytes(message.frame.size);
  credits_.drop(message.source, bytes);
  credits_.give_back(message.source, bytes);
  if (message.arrived == message.frame.size) message.frame.kind = MessageFrame::Kind::eager;
  return message;
}

std::optional<MessageInfo> Messages::probe(int source, int tag) {
  const MessageTransfer wanted{.peer = source, .tag = tag};
  check_arguments(wanted, "probe");
  for (const Unexpected& message : unexpected_)
    if (matches(wanted, message.source, message.frame.tag))
      return MessageInfo{message.source.value(), message.frame.tag, Bytes{message.frame.size}};
  return std::nullopt;
}

bool Messages::matches(const MessageTransfer& transfer, Rank source, int tag) {
  return (transfer.peer == any_source || Rank{transfer.peer} == source) &&
         (transfer.tag == any_tag ? tag <= largest_tag : transfer.tag == tag);
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

void Messages::handle(Rank source, const MessageFrame& frame, const Payload& payload) {
  switch (frame.kind) {
    case MessageFrame::Kind::eager:
    case MessageFrame::Kind::begun:
    case MessageFrame::Kind::offer:
      return arrive(source, frame, payload);
    case MessageFrame::Kind::acknowledged:
      takes_offers_[source] = 1;
      return end_offer(source, frame.id), end_fragments(source, frame.id);
    case MessageFrame::Kind::reading:
      takes_offers_[source] = 1;
      return;
    case MessageFrame::Kind::stream:
      return stream(source, frame);
    case MessageFrame::Kind::fragment:
      return receive_fragment(source, frame, payload);
  }
  throw Aborted(fmt::format("rank {} does not understand a message of rank {}", self_.value(),
                            source.value()));
}

/// Gives a message to the first receive that matches it, or stores it as unexpected.
void Messages::arrive(Rank source, const MessageFrame& frame, const Payload& payload) {
  const auto found = first_posted(source, frame.tag);
  if (found == posted_.end()) return store(source, frame, payload);
  const TransferPointer transfer = *found;
  posted_.erase(found);
  if (frame.kind != MessageFrame::Kind::offer) credits_.give_back(source, stored_bytes(frame.size));
  accept(transfer, source, frame, payload);
}

std::deque<Messages::TransferPointer>::const_iterator Messages::first_posted(Rank source,
                                                                             int tag) const {
  return std::ranges::find_if(
      posted_, [&](const TransferPointer& transfer) { return matches(*transfer, source, tag); });
}

void Messages::store(Rank source, const MessageFrame& frame, const Payload& payload) {
  Unexpected message{source, frame};
  if (frame.kind != MessageFrame::Kind::offer) {
    const Bytes bytes = stored_bytes(frame.size);
    Foreign{self_, source}.require(credits_.has_room(source, bytes),
                                   "the length of a message without credit", frame.size);
    credits_.store(source, bytes);
    message.payload = spare_.take(frame.size);
    payload.copy_to(message.payload.get());
    message.arrived = payload.size();
  }
  unexpected_.push_back(std::move(message));
}

void Messages::accept(const TransferPointer& transfer, Rank source, const MessageFrame& frame,
                      const Payload& payload) {
  if (refuse(transfer, source, frame)) return;
  const bool in_fragments = frame.kind == MessageFrame::Kind::begun;
  if (frame.kind != MessageFrame::Kind::offer) {
    try {
      to_host(*transfer);
    } catch (const Error&) {  // no host copy for a device: the message is dropped
      return finish(transfer, std::current_exception(), source.value(), frame.tag, frame.size);
    }
    payload.copy_to(transfer->data);
    if (!in_fragments) return finish(transfer, nullptr, source.value(), frame.tag, frame.size);
    transfer->done = payload.size();
  } else if (source == self_) {
    return take_own(transfer, frame);
  }
  transfer->since = {};
  incoming_.push_back({transfer, source, frame, in_fragments});
}

/// The error of a message that does not fit a receive; null if it does.
std::exception_ptr Messages::misfit(const MessageTransfer& transfer, Rank source,
                                    const MessageFrame& frame) const {
  const MessageType expected = type_of(transfer), sent{frame.type};
  if (expected.type() && sent.type() && expected.number != sent.number)
    return error_of<Mismatch>(
        "rank {} receives {} from rank {} with tag {}, which sends {}: both must use one type",
        self_.value(), expected.name(), source.value(), frame.tag, sent.name());
  if (transfer.allocate) return nullptr;
  const bool shaped = transfer.shape != 0;
  if (shaped && frame.shape != 0 ? frame.shape != transfer.shape
                                 : shaped && frame.size < transfer.size)
    return error_of<Mismatch>(
        "rank {} receives a tensor of {} bytes from rank {} with tag {}, which sends {} bytes{}: "
        "both must use one shape",
        self_.value(), transfer.size, source.value(), frame.tag, frame.size,
        frame.shape != 0 ? " of another shape" : "");
  if (frame.size > transfer.size)
    return error_of<Truncated>(
        "rank {} receives at most {} bytes from rank {} with tag {}, but the message has {}: probe "
        "first, or pass a larger buffer",
        self_.value(), transfer.size, source.value(), frame.tag, frame.size);
  return nullptr;
}

/// Gives a receive of any length the memory for its message.
std::exception_ptr Messages::make_room(MessageTransfer& transfer, const MessageFrame& frame) {
  if (!transfer.allocate) return nullptr;
  try {
    transfer.data = transfer.allocate(MessageType{frame.type}.type(), frame.size);
    transfer.size = frame.size;
    return nullptr;
  } catch (const Error&) {
    return std::current_exception();
  } catch (const std::exception& error) {
    return error_of<LimitReached>("rank {} has no memory for a message of {} bytes: {}",
                                  self_.value(), frame.size, error.what());
  }
}

/// Ends a receive whose type, shape or length does not fit the message, and drops the message.
bool Messages::refuse(const TransferPointer& transfer, Rank source, const MessageFrame& frame) {
  std::exception_ptr error = misfit(*transfer, source, frame);
  if (!error) error = make_room(*transfer, frame);
  if (!error) return false;
  if (frame.kind == MessageFrame::Kind::offer && source != self_) {
    incoming_.push_back({.transfer = transfer, .source = source, .frame = frame, .error = error});
    return true;
  }
  if (frame.kind == MessageFrame::Kind::offer) end_offer(self_, frame.id);
  finish(transfer, error, source.value(), frame.tag, frame.size);
  return true;
}

/// Handles all frames that a peer has sent.
bool Messages::read_frames(Rank peer) {
  MessageFrame frame;
  Payload payload;
  constexpr std::uint32_t worth_freeing = 4096;  // a sender may wait for the room
  if (!rings_.take(peer, frame, payload)) return false;
  do {
    handle(peer, frame, payload);
    if (frame.payload >= worth_freeing) rings_.free(peer);
  } while (rings_.take(peer, frame, payload));
  rings_.free(peer);
  return true;
}

bool Messages::advance() {
  bool moved = false;
  for (const Rank peer : peers_.others()) moved |= read_frames(peer);
  for (auto incoming = incoming_.begin(); incoming != incoming_.end();) {
    if (!incoming->complete()) moved |= pull(*incoming);
    if (!incoming->complete() || !acknowledge(*incoming)) {
      ++incoming;
      continue;
    }
    note_way(*incoming);
    const Incoming ended = std::move(*incoming);
    incoming = incoming_.erase(incoming);
    finish(ended);
    moved = true;
  }
  if (queued_ > 0)
    for (const Rank peer : peers_.others()) moved |= write_frames(peer);
  if (sending_count_ > 0)
    for (const Rank peer : peers_.others()) moved |= finish_sent(peer);
  return moved;
}

void Messages::finish(const TransferPointer& transfer, std::exception_ptr error, int source,
                      int tag, std::uint64_t size) {
  --pending_;
  end_hardware_access(*transfer, error != nullptr);
  const auto finished = std::exchange(transfer->finished, nullptr);
  if (!finished) return;
  try {
    if (!error && transfer->stage && transfer->flush) transfer->flush();
    if (!error && transfer->unpack) transfer->unpack(Bytes{size});
  } catch (const Error&) {
    error = std::current_exception();
  }
  finished(std::move(error), {source, tag, Bytes{size}});
}

/// Before a buffer is given back.
void Messages::end_hardware_access(MessageTransfer& transfer, bool failed) {
  if (transfer.read && transfer.read->under_way())
    peers_.transport().end_reads(transfer.read->peer);
  transfer.read.reset();
  if (transfer.exposed && failed) transfer.exposed->revoke();
  transfer.exposed.reset();
}

}  // namespace capstan
