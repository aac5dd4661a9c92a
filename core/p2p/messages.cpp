#include "core/p2p/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "capstan/error.hpp"
#include "core/control/peers.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t pull_at_once = 1 << 20;

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
      rings_(peers, offset, options.ring),
      outgoing_(ranks_),
      sending_(ranks_),
      full_since_(ranks_) {}

Bytes Messages::area(int ranks, Bytes ring) {
  return Rings::area(ranks, ring);
}

void Messages::check_arguments(const MessageTransfer& transfer, const char* call) const {
  const bool any = !transfer.sends && transfer.peer == any_source;
  if (!any && (transfer.peer < 0 || transfer.peer >= ranks_))
    throw InvalidArgument(fmt::format("rank {}: {} rank {}: ranks are 0 to {}", self_.value(), call,
                                      transfer.peer, ranks_ - 1));
  const bool any_tag_given = !transfer.sends && transfer.tag == any_tag;
  if (!any_tag_given && (transfer.tag < 0 || transfer.tag > largest_tag))
    throw InvalidArgument(fmt::format("rank {}: {} rank {} with tag {}: tags are 0 to {}",
                                      self_.value(), call, transfer.peer, transfer.tag,
                                      largest_tag));
}

void Messages::send(TransferPointer transfer) {
  transfer->sends = true;
  ++pending_;
  const Rank peer{transfer->peer};
  if (peer == self_) return send_to_self(transfer);
  MessageFrame frame{.tag = transfer->tag,
                     .size = transfer->size,
                     .type = transfer->type ? 1 + static_cast<std::uint32_t>(*transfer->type) : 0};
  if (transfer->size <= options_.eager.value()) {
    frame.payload = static_cast<std::uint32_t>(transfer->size);
    const std::byte* data = transfer->data;
    queue(peer, {frame, data, std::move(transfer)});
  } else {
    frame.kind = MessageFrame::Kind::offer;
    frame.id = transfer->id = next_id_++;
    frame.address = reinterpret_cast<std::uint64_t>(transfer->data);
    frame.allocation = peers_.allocation_of(transfer->data, Bytes{transfer->size});
    offered_[frame.id] = std::move(transfer);
    queue(peer, {frame});
  }
  write_frames(peer);
}

void Messages::send_to_self(const TransferPointer& transfer) {
  const MessageFrame frame{
      .tag = transfer->tag,
      .size = transfer->size,
      .type = transfer->type ? 1 + static_cast<std::uint32_t>(*transfer->type) : 0};
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
  const Unexpected message = std::move(*found);
  unexpected_.erase(found);
  accept(transfer, message.source, message.frame, {.first = message.payload});
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
         (transfer.tag == any_tag || transfer.tag == tag);
}

void Messages::queue(Rank peer, Outgoing outgoing) {
  outgoing_[peer].push_back(std::move(outgoing));
  ++queued_;
}

/// Writes frames to the ring as long as there is room.
bool Messages::write_frames(Rank peer) {
  auto& waiting = outgoing_[peer];
  bool moved = false;
  while (!waiting.empty() && rings_.write(peer, waiting.front().frame, waiting.front().payload)) {
    if (waiting.front().transfer) {
      sending_[peer].push_back(waiting.front().transfer);
      ++sending_count_;
    }
    waiting.pop_front();
    --queued_;
    moved = true;
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
    case MessageFrame::Kind::offer:
      return arrive(source, frame, payload);
    case MessageFrame::Kind::acknowledged:
      if (const TransferPointer transfer = take_offer(source, frame.id))
        finish(transfer, nullptr, self_.value(), transfer->tag, transfer->size);
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
  const auto found = std::ranges::find_if(posted_, [&](const TransferPointer& transfer) {
    return matches(*transfer, source, frame.tag);
  });
  if (found != posted_.end()) {
    const TransferPointer transfer = *found;
    posted_.erase(found);
    return accept(transfer, source, frame, payload);
  }
  Unexpected& message = unexpected_.emplace_back(Unexpected{source, frame, {}});
  if (frame.kind != MessageFrame::Kind::eager) return;
  message.payload.resize(frame.size);
  payload.copy_to(message.payload.data());
}

void Messages::accept(const TransferPointer& transfer, Rank source, const MessageFrame& frame,
                      const Payload& payload) {
  if (refuse(transfer, source, frame)) return;
  if (frame.kind == MessageFrame::Kind::eager) {
    payload.copy_to(transfer->data);
    return finish(transfer, nullptr, source.value(), frame.tag, frame.size);
  }
  transfer->since = {};
  incoming_.push_back({transfer, source, frame});
}

/// Ends a receive whose type or length does not fit the message, and drops the message.
bool Messages::refuse(const TransferPointer& transfer, Rank source, const MessageFrame& frame) {
  std::exception_ptr error;
  const std::uint32_t type = transfer->type ? 1 + static_cast<std::uint32_t>(*transfer->type) : 0;
  if (type != 0 && frame.type != 0 && type != frame.type)
    error = error_of<Mismatch>(
        "rank {} receives {} from rank {} with tag {}, which sends {}: both must use one type",
        self_.value(), name_of(*transfer->type), source.value(), frame.tag,
        name_of(static_cast<DataType>(frame.type - 1)));
  else if (frame.size > transfer->size)
    error = error_of<Truncated>(
        "rank {} receives at most {} bytes from rank {} with tag {}, but the message has {}: probe "
        "first, or pass a larger buffer",
        self_.value(), transfer->size, source.value(), frame.tag, frame.size);
  if (!error) return false;
  if (frame.kind == MessageFrame::Kind::offer)
    queue(source, {MessageFrame{.kind = MessageFrame::Kind::acknowledged, .id = frame.id}});
  finish(transfer, error, source.value(), frame.tag, frame.size);
  return true;
}

/// Reads the next part of an offer; true if there was any progress.
bool Messages::pull(Incoming& incoming) {
  if (incoming.streams) return false;
  MessageTransfer& transfer = *incoming.transfer;
  const std::uint64_t length = std::min(pull_at_once, incoming.frame.size - transfer.done);
  if (read_offer(incoming, length)) {
    transfer.done += length;
    transfer.since = {};
    return true;
  }
  if (!peers_.buffers_valid(incoming.source)) return false;  // check() ends it with the cause
  incoming.streams = true;
  transfer.done = 0;
  queue(incoming.source,
        {MessageFrame{.kind = MessageFrame::Kind::stream, .id = incoming.frame.id}});
  return true;
}

/// Reads the next bytes of an offered message. False if the sender's memory cannot be read, or may
/// have been given back to its owner meanwhile.
bool Messages::read_offer(const Incoming& incoming, std::uint64_t length) {
  if (!options_.read_remote || !peers_.mapped(incoming.source)) return false;
  const MessageTransfer& transfer = *incoming.transfer;
  const Peers::UsingPeerBuffers using_them{peers_};
  if (!peers_.buffers_valid(incoming.source)) return false;
  const std::uint64_t from = incoming.frame.address + transfer.done;
  std::byte* const to = transfer.data + transfer.done;
  const std::byte* const seen =
      peers_.view(incoming.source, incoming.frame.allocation, from, Bytes{length});
  if (seen) std::memcpy(to, seen, length);
  const bool read =
      seen || peers_.transport().read_remote(incoming.source, from, to, Bytes{length});
  // A sender that could not wait for this rank has published its failure before it went on.
  std::atomic_thread_fence(std::memory_order_acquire);
  return read && peers_.buffers_valid(incoming.source);
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

/// Sends a message in fragments: its receiver cannot read this rank's memory.
void Messages::stream(Rank peer, const MessageFrame& asked) {
  const TransferPointer transfer = take_offer(peer, asked.id);
  if (!transfer) return;
  const std::uint64_t most = options_.ring.value() / 4;
  for (std::uint64_t sent = 0; sent < transfer->size; sent += most) {
    const std::uint64_t length = std::min(most, transfer->size - sent);
    const bool last = sent + length == transfer->size;
    queue(peer, {MessageFrame{.kind = MessageFrame::Kind::fragment,
                              .id = asked.id,
                              .payload = static_cast<std::uint32_t>(length)},
                 transfer->data + sent, last ? transfer : nullptr});
  }
}

void Messages::receive_fragment(Rank source, const MessageFrame& frame, const Payload& payload) {
  const auto found = std::ranges::find_if(incoming_, [&](const Incoming& incoming) {
    return incoming.source == source && incoming.frame.id == frame.id;
  });
  if (found == incoming_.end()) return;
  MessageTransfer& transfer = *found->transfer;
  const Foreign theirs{self_, source};
  theirs.require(found->streams, "the message that it was asked for", frame.id);
  theirs.at_most("the length of a fragment", frame.payload, found->frame.size - transfer.done);
  payload.copy_to(transfer.data + transfer.done);
  transfer.done += frame.payload;
  transfer.since = {};
}

bool Messages::advance() {
  bool moved = false;
  for (const Rank peer : peers_.others())
    moved |= rings_.read(peer, [&](const MessageFrame& frame, const Payload& payload) {
      handle(peer, frame, payload);
    });
  for (auto incoming = incoming_.begin(); incoming != incoming_.end();) {
    const std::uint64_t size = incoming->frame.size;
    if (incoming->transfer->done < size) moved |= pull(*incoming);
    if (incoming->transfer->done < size) {
      ++incoming;
      continue;
    }
    const Incoming complete = std::move(*incoming);
    incoming = incoming_.erase(incoming);
    if (!complete.streams)
      queue(complete.source,
            {MessageFrame{.kind = MessageFrame::Kind::acknowledged, .id = complete.frame.id}});
    finish(complete.transfer, nullptr, complete.source.value(), complete.frame.tag, size);
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
  const auto finished = std::exchange(transfer->finished, nullptr);
  if (!finished) return;
  try {
    if (!error && transfer->unpack) transfer->unpack(Bytes{size});
  } catch (const Error&) {
    error = std::current_exception();
  }
  finished(std::move(error), {source, tag, Bytes{size}});
}

/// The frame of an eager send, or the last fragment of an offered one, that waits for room in the
/// ring; null if there is none.
Messages::Outgoing* Messages::waiting_frame(const TransferPointer& transfer) {
  for (auto& waiting : outgoing_)
    for (Outgoing& outgoing : waiting)
      if (outgoing.transfer == transfer && outgoing.frame.kind == MessageFrame::Kind::eager)
        return &outgoing;
  return nullptr;
}

bool Messages::can_detach(const TransferPointer& transfer) {
  return !transfer->finished || !transfer->sends || transfer->memory || is_sending(transfer) ||
         waiting_frame(transfer);
}

void Messages::detach(const TransferPointer& transfer) {
  if (!transfer->finished) return;
  transfer->finished = nullptr;
  if (!transfer->sends) {
    if (std::erase(posted_, transfer) > 0) return static_cast<void>(--pending_);
    transfer->own.assign(transfer->data, transfer->data + transfer->done);
    transfer->own.resize(transfer->size);
    transfer->data = transfer->own.data();
    return;
  }
  if (transfer->memory || is_sending(transfer)) return;
  transfer->own.assign(transfer->data, transfer->data + transfer->size);
  waiting_frame(transfer)->payload = transfer->data = transfer->own.data();
}

}  // namespace capstan
