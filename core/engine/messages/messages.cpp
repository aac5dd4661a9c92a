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
      ways_to_(ranks_),
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
    case MessageFrame::Kind::timed:
      return note_time(source, frame);
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
  if (frame.kind == MessageFrame::Kind::begun) message.frame.address = 0;  // its time tells nothing
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
  const MessageType expected = MessageType::of(transfer.type, transfer.foreign),
                    sent = frame.type();
  if (expected.type() && sent.type() && expected != sent) {
    const auto& sender = source == self_ ? peers_.own_control() : peers_.control(source);
    const auto note = Notes::find(sender, sent.note());
    return error_of<Mismatch>(
        "rank {} receives {} from rank {} with tag {}, which sends {}: both must use one type",
        self_.value(), to_string(*transfer.type, transfer.foreign), source.value(), frame.tag,
        sent.name(note ? note->name.c_str() : nullptr));
  }
  if (transfer.allocates()) return nullptr;
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
  if (!transfer.allocates()) return nullptr;
  try {
    transfer.data = transfer.special->allocate(frame.type().type(), frame.size);
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
    tell_time(*incoming);
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
  if (transfer->special && !error) error = hand_over(*transfer->special, size);
  finished(std::move(error), {source, tag, Bytes{size}});
}

/// Has the caller find what has come into special memory.
std::exception_ptr Messages::hand_over(const SpecialMemory& memory, std::uint64_t size) try {
  if (memory.stage && memory.flush) memory.flush();
  if (memory.unpack) memory.unpack(Bytes{size});
  return nullptr;
} catch (const Error&) {
  return std::current_exception();
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
