// What becomes of messages when peers are gone, slow, or the communicator has failed.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/control/peers.hpp"
#include "core/p2p/messages.hpp"

namespace capstan {

void Messages::check(Time now, std::chrono::milliseconds timeout,
                     const std::function<std::optional<std::string>(int)>& gone) {
  watch_sources();
  std::vector<std::optional<std::string>> reasons(static_cast<std::size_t>(ranks_));
  bool all_gone = ranks_ > 1;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == self_) continue;
    reasons[static_cast<std::size_t>(peer)] = gone(peer);
    all_gone = all_gone && reasons[static_cast<std::size_t>(peer)];
  }
  advance();  // what a peer sent before it went counts
  const auto lost = [&](const Request& request, int peer) -> std::exception_ptr {
    if (peer == any_source && all_gone) peer = self_ == 0 ? 1 : 0;
    if (peer == any_source || !reasons[static_cast<std::size_t>(peer)]) return nullptr;
    return std::make_exception_ptr(PeerLost(
        Rank{peer},
        fmt::format("rank {} lost rank {} ({}) while it waited to {} a message with tag {}: find "
                    "out why rank {} ended",
                    self_, peer, *reasons[static_cast<std::size_t>(peer)],
                    request.sends ? "send" : "receive", request.tag, peer)));
  };
  const auto late = [&](Request& request) -> std::exception_ptr {
    if (waited(request.since, now) <= timeout) return nullptr;
    return std::make_exception_ptr(TimedOut(fmt::format(
        "rank {} waited {} s for a message from {} with tag {}: see what the sender does, or raise "
        "CAPSTAN_TIMEOUT",
        self_, std::chrono::duration<double>(timeout).count(),
        request.peer == any_source ? "any rank" : fmt::format("rank {}", request.peer),
        request.tag == any_tag ? "any value" : fmt::to_string(request.tag))));
  };

  std::vector<std::pair<RequestPointer, std::exception_ptr>> failed;
  const auto fail_if = [&](const RequestPointer& request, const std::exception_ptr& error) {
    if (error) failed.emplace_back(request, error);
    return error != nullptr;
  };
  std::erase_if(posted_, [&](const RequestPointer& request) {
    const auto error = lost(*request, request->peer);
    return fail_if(request, error ? error : late(*request));
  });
  std::erase_if(incoming_, [&](const Incoming& incoming) {
    const auto error = lost(*incoming.request, incoming.source);
    return fail_if(incoming.request, error ? error : late(*incoming.request));
  });
  std::erase_if(offered_, [&](const auto& offer) {
    return fail_if(offer.second, lost(*offer.second, offer.second->peer));
  });
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == self_ || !reasons[static_cast<std::size_t>(peer)]) continue;
    for (const Outgoing& outgoing : std::exchange(outgoing_[static_cast<std::size_t>(peer)], {})) {
      --queued_;
      if (outgoing.request) fail_if(outgoing.request, lost(*outgoing.request, peer));
    }
    for (const auto& request : take_leaving(peer)) fail_if(request, lost(*request, peer));
  }
  for (const auto& [request, error] : failed)
    finish(request, error, request->peer, request->tag, 0);
  check_sends(now, timeout);
}

/// Those from whom messages are awaited.
void Messages::watch_sources() {
  for (const RequestPointer& request : posted_)
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != self_ && (request->peer == peer || request->peer == any_source))
        peers_.transport().watch(Rank{peer});
}

/// A peer may be reading what it was offered: only the end of the communicator stops it.
void Messages::check_sends(Time now, std::chrono::milliseconds timeout) {
  const auto fail = [&](const Request& request) {
    throw TimedOut(fmt::format(
        "rank {} waited {} s for rank {} to take a message of {} bytes with tag {}: see what rank "
        "{} does instead and whether its host can be reached, or raise CAPSTAN_TIMEOUT",
        self_, std::chrono::duration<double>(timeout).count(), request.peer, request.size,
        request.tag, request.peer));
  };
  for (auto& [id, request] : offered_)
    if (waited(request->since, now) > timeout) fail(*request);
  for (std::size_t peer = 0; peer < outgoing_.size(); ++peer) {
    const auto waiting = std::ranges::find_if(
        outgoing_[peer], [](const Outgoing& outgoing) { return outgoing.request != nullptr; });
    const Request* const first = !leaving_[peer].empty()            ? leaving_[peer].front().get()
                                 : waiting != outgoing_[peer].end() ? waiting->request.get()
                                                                    : nullptr;
    if (!first)
      full_since_[peer] = {};
    else if (waited(full_since_[peer], now) > timeout)
      fail(*first);
  }
}

/// Counted from the first look in vain: before it the program may have been busy elsewhere.
Messages::Time::duration Messages::waited(Time& since, Time now) {
  if (since == Time{}) since = now;
  return now - since;
}

void Messages::fail_all(const std::exception_ptr& error) {
  // This rank does not stand any more: before owners get their buffers back, nobody reads them.
  if (!offered_.empty()) peers_.wait_for_users();
  std::vector<RequestPointer> requests(posted_.begin(), posted_.end());
  for (const Incoming& incoming : incoming_) requests.push_back(incoming.request);
  for (const auto& offer : offered_) requests.push_back(offer.second);
  for (const auto& waiting : outgoing_)
    for (const Outgoing& outgoing : waiting)
      if (outgoing.request) requests.push_back(outgoing.request);
  for (int peer = 0; peer < ranks_; ++peer)
    for (const RequestPointer& request : take_leaving(peer)) requests.push_back(request);
  posted_.clear();
  incoming_.clear();
  offered_.clear();
  for (auto& waiting : outgoing_) waiting.clear();
  queued_ = 0;
  for (const RequestPointer& request : requests)
    finish(request, error, request->peer, request->tag, 0);
}

}  // namespace capstan
