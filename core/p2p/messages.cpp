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
      outgoing_(static_cast<std::size_t>(ranks_)),
      leaving_(static_cast<std::size_t>(ranks_)),
      full_since_(static_cast<std::size_t>(ranks_)) {}

Bytes Messages::area(int ranks, Bytes ring) {
  return Rings::area(ranks, ring);
}

void Messages::check_arguments(const Request& request, const char* call) const {
  const bool any = !request.sends && request.peer == any_source;
  if (!any && (request.peer < 0 || request.peer >= ranks_))
    throw InvalidArgument(fmt::format("rank {}: {} rank {}: ranks are 0 to {}", self_, call,
                                      request.peer, ranks_ - 1));
  const bool any_tag_given = !request.sends && request.tag == any_tag;
  if (!any_tag_given && (request.tag < 0 || request.tag > largest_tag))
    throw InvalidArgument(fmt::format("rank {}: {} rank {} with tag {}: tags are 0 to {}", self_,
                                      call, request.peer, request.tag, largest_tag));
}

void Messages::send(RequestPointer request) {
  request->sends = true;
  check_arguments(*request, "send to");
  ++pending_;
  if (request->peer == self_) return send_to_self(request);
  Frame frame{.tag = request->tag,
              .size = request->size,
              .type = request->type ? 1 + static_cast<std::uint32_t>(*request->type) : 0};
  const int peer = request->peer;
  if (request->size <= options_.eager.value()) {
    frame.payload = static_cast<std::uint32_t>(request->size);
    const std::byte* data = request->data;
    queue(peer, {frame, data, std::move(request)});
  } else {
    frame.kind = Frame::Kind::offer;
    frame.id = request->id = next_id_++;
    frame.address = reinterpret_cast<std::uint64_t>(request->data);
    frame.allocation = peers_.allocation_of(request->data, Bytes{request->size});
    offered_[frame.id] = std::move(request);
    queue(peer, {frame});
  }
  flush(peer);
}

void Messages::send_to_self(const RequestPointer& request) {
  const Frame frame{.tag = request->tag,
                    .size = request->size,
                    .type = request->type ? 1 + static_cast<std::uint32_t>(*request->type) : 0};
  arrive(self_, frame, {.first = {request->data, request->size}});
  finish(request, nullptr, self_, request->tag, request->size);
}

void Messages::receive(RequestPointer request) {
  request->sends = false;
  check_arguments(*request, "receive from");
  ++pending_;
  const auto found = std::ranges::find_if(arrived_, [&](const Arrived& message) {
    return matches(*request, message.source, message.frame.tag);
  });
  if (found == arrived_.end()) return posted_.push_back(std::move(request));
  const Arrived message = std::move(*found);
  arrived_.erase(found);
  accept(request, message.source, message.frame, {.first = message.payload});
}

std::optional<MessageInfo> Messages::probe(int source, int tag) {
  const Request wanted{.peer = source, .tag = tag};
  check_arguments(wanted, "probe");
  for (const Arrived& message : arrived_)
    if (matches(wanted, message.source, message.frame.tag))
      return MessageInfo{message.source, message.frame.tag, Bytes{message.frame.size}};
  return std::nullopt;
}

bool Messages::matches(const Request& request, int source, int tag) {
  return (request.peer == any_source || request.peer == source) &&
         (request.tag == any_tag || request.tag == tag);
}

void Messages::queue(int peer, Outgoing outgoing) {
  outgoing_[static_cast<std::size_t>(peer)].push_back(std::move(outgoing));
  ++queued_;
}

/// Writes frames to the ring as long as there is room.
bool Messages::flush(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  auto& waiting = outgoing_[p];
  bool moved = false;
  while (!waiting.empty() && rings_.write(peer, waiting.front().frame, waiting.front().payload)) {
    if (waiting.front().request) {
      leaving_[p].push_back(waiting.front().request);
      ++leaving_count_;
    }
    waiting.pop_front();
    --queued_;
    moved = true;
  }
  if (!moved) return false;
  full_since_[p] = {};
  rings_.show(peer);
  let_go(peer);
  return true;
}

/// Finishes sends that need nothing more of this rank.
bool Messages::let_go(int peer) {
  if (leaving_[static_cast<std::size_t>(peer)].empty() ||
      !(peers_.mapped(peer) || peers_.transport().pushed(Rank{peer})))
    return false;
  for (const RequestPointer& request : take_leaving(peer))
    finish(request, nullptr, self_, request->tag, request->size);
  full_since_[static_cast<std::size_t>(peer)] = {};
  return true;
}

std::deque<Messages::RequestPointer> Messages::take_leaving(int peer) {
  auto& leaving = leaving_[static_cast<std::size_t>(peer)];
  leaving_count_ -= leaving.size();
  return std::exchange(leaving, {});
}

bool Messages::is_leaving(const RequestPointer& request) const {
  const auto& leaving = leaving_[static_cast<std::size_t>(request->peer)];
  return std::ranges::find(leaving, request) != leaving.end();
}

void Messages::handle(int source, const Frame& frame, const Payload& payload) {
  switch (frame.kind) {
    case Frame::Kind::eager:
    case Frame::Kind::offer:
      return arrive(source, frame, payload);
    case Frame::Kind::taken:
      if (const auto found = offered_.find(frame.id); found != offered_.end()) {
        const RequestPointer request = found->second;
        offered_.erase(found);
        finish(request, nullptr, self_, request->tag, request->size);
      }
      return;
    case Frame::Kind::stream:
      return stream(source, frame);
    case Frame::Kind::fragment:
      return take_fragment(source, frame, payload);
  }
  throw Aborted(fmt::format("rank {} does not understand a message of rank {}", self_, source));
}

/// A message goes to the first receive that wants it, or waits for one.
void Messages::arrive(int source, const Frame& frame, const Payload& payload) {
  const auto found = std::ranges::find_if(
      posted_, [&](const RequestPointer& request) { return matches(*request, source, frame.tag); });
  if (found != posted_.end()) {
    const RequestPointer request = *found;
    posted_.erase(found);
    return accept(request, source, frame, payload);
  }
  Arrived& message = arrived_.emplace_back(Arrived{source, frame, {}});
  if (frame.kind != Frame::Kind::eager) return;
  message.payload.resize(frame.size);
  payload.copy_to(message.payload.data());
}

void Messages::accept(const RequestPointer& request, int source, const Frame& frame,
                      const Payload& payload) {
  if (refuse(request, source, frame)) return;
  if (frame.kind == Frame::Kind::eager) {
    payload.copy_to(request->data);
    return finish(request, nullptr, source, frame.tag, frame.size);
  }
  request->since = {};
  incoming_.push_back({request, source, frame});
}

/// A message that does not suit the receive ends it; the message is dropped.
bool Messages::refuse(const RequestPointer& request, int source, const Frame& frame) {
  std::exception_ptr error;
  const std::uint32_t type = request->type ? 1 + static_cast<std::uint32_t>(*request->type) : 0;
  if (type != 0 && frame.type != 0 && type != frame.type)
    error = error_of<Mismatch>(
        "rank {} receives {} from rank {} with tag {}, which sends {}: both must use one type",
        self_, name_of(*request->type), source, frame.tag,
        name_of(static_cast<DataType>(frame.type - 1)));
  else if (frame.size > request->size)
    error = error_of<Truncated>(
        "rank {} receives at most {} bytes from rank {} with tag {}, but the message has {}: probe "
        "first, or pass a larger buffer",
        self_, request->size, source, frame.tag, frame.size);
  if (!error) return false;
  if (frame.kind == Frame::Kind::offer)
    queue(source, {Frame{.kind = Frame::Kind::taken, .id = frame.id}});
  finish(request, error, source, frame.tag, frame.size);
  return true;
}

/// Reads on in the sender's memory; true if anything moved.
bool Messages::pull(Incoming& incoming) {
  if (incoming.streams) return false;
  Request& request = *incoming.request;
  const std::uint64_t length = std::min(pull_at_once, incoming.frame.size - request.done);
  if (read_offer(incoming, length)) {
    request.done += length;
    request.since = {};
    return true;
  }
  if (!peers_.buffers_valid(incoming.source)) return false;  // check() ends it, and knows why
  incoming.streams = true;
  request.done = 0;
  queue(incoming.source, {Frame{.kind = Frame::Kind::stream, .id = incoming.frame.id}});
  return true;
}

/// Reads the next bytes of an offer, unless they have been given back to their owner.
bool Messages::read_offer(const Incoming& incoming, std::uint64_t length) {
  if (!options_.read_remote || !peers_.mapped(incoming.source)) return false;
  const Request& request = *incoming.request;
  const Peers::UsingPeerBuffers using_them{peers_};
  if (!peers_.buffers_valid(incoming.source)) return false;
  const std::uint64_t from = incoming.frame.address + request.done;
  std::byte* const to = request.data + request.done;
  const std::byte* const seen =
      peers_.view(incoming.source, incoming.frame.allocation, from, Bytes{length});
  if (seen) std::memcpy(to, seen, length);
  const bool read =
      seen || peers_.transport().read_remote(Rank{incoming.source}, from, to, Bytes{length});
  // Once more, for a sender that could not wait.
  std::atomic_thread_fence(std::memory_order_acquire);
  return read && peers_.buffers_valid(incoming.source);
}

/// The receiver of an offer cannot read this rank's memory.
void Messages::stream(int peer, const Frame& asked) {
  const auto found = offered_.find(asked.id);
  if (found == offered_.end()) return;
  const RequestPointer request = found->second;
  offered_.erase(found);
  const std::uint64_t most = options_.ring.value() / 4;
  for (std::uint64_t sent = 0; sent < request->size; sent += most) {
    const std::uint64_t length = std::min(most, request->size - sent);
    const bool last = sent + length == request->size;
    queue(peer, {Frame{.kind = Frame::Kind::fragment,
                       .id = asked.id,
                       .payload = static_cast<std::uint32_t>(length)},
                 request->data + sent, last ? request : nullptr});
  }
}

void Messages::take_fragment(int source, const Frame& frame, const Payload& payload) {
  const auto found = std::ranges::find_if(incoming_, [&](const Incoming& incoming) {
    return incoming.source == source && incoming.frame.id == frame.id;
  });
  if (found == incoming_.end()) return;
  Request& request = *found->request;
  if (frame.payload > found->frame.size - request.done)
    throw Aborted(
        fmt::format("rank {} got more of a message of rank {} than was offered", self_, source));
  payload.copy_to(request.data + request.done);
  request.done += frame.payload;
  request.since = {};
}

bool Messages::advance() {
  bool moved = false;
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != self_)
      moved |= rings_.read(
          peer, [&](const Frame& frame, const Payload& payload) { handle(peer, frame, payload); });
  for (auto incoming = incoming_.begin(); incoming != incoming_.end();) {
    const std::uint64_t size = incoming->frame.size;
    if (incoming->request->done < size) moved |= pull(*incoming);
    if (incoming->request->done < size) {
      ++incoming;
      continue;
    }
    const Incoming complete = std::move(*incoming);
    incoming = incoming_.erase(incoming);
    if (!complete.streams)
      queue(complete.source, {Frame{.kind = Frame::Kind::taken, .id = complete.frame.id}});
    finish(complete.request, nullptr, complete.source, complete.frame.tag, size);
    moved = true;
  }
  for (int peer = 0; queued_ > 0 && peer < ranks_; ++peer) moved |= flush(peer);
  for (int peer = 0; leaving_count_ > 0 && peer < ranks_; ++peer) moved |= let_go(peer);
  return moved;
}

void Messages::finish(const RequestPointer& request, std::exception_ptr error, int source, int tag,
                      std::uint64_t size) {
  --pending_;
  const auto finished = std::exchange(request->finished, nullptr);
  if (!finished) return;
  try {
    if (!error && request->unpack) request->unpack(Bytes{size});
  } catch (const Error&) {
    error = std::current_exception();
  }
  finished(std::move(error), {source, tag, Bytes{size}});
}

/// A send whose frame has not gone yet goes on with a copy; an offer that is out may be being read.
Messages::Outgoing* Messages::waiting_frame(const RequestPointer& request) {
  for (auto& waiting : outgoing_)
    for (Outgoing& outgoing : waiting)
      if (outgoing.request == request && outgoing.frame.kind == Frame::Kind::eager)
        return &outgoing;
  return nullptr;
}

bool Messages::can_detach(const RequestPointer& request) {
  return !request->finished || !request->sends || request->memory || is_leaving(request) ||
         waiting_frame(request);
}

void Messages::detach(const RequestPointer& request) {
  if (!request->finished) return;
  request->finished = nullptr;
  if (!request->sends) {
    if (std::erase(posted_, request) > 0) return static_cast<void>(--pending_);
    request->own.assign(request->data, request->data + request->done);
    request->own.resize(request->size);
    request->data = request->own.data();
    return;
  }
  if (request->memory || is_leaving(request)) return;
  request->own.assign(request->data, request->data + request->size);
  waiting_frame(request)->payload = request->data = request->own.data();
}

}  // namespace capstan
