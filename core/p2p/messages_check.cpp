// How messages end when peers are gone or slow, or when the communicator has failed.

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
  advance();  // messages that a peer sent before it ended are still received
  const auto lost = [&](const MessageTransfer& transfer, int peer) -> std::exception_ptr {
    if (peer == any_source && all_gone) peer = self_ == 0 ? 1 : 0;
    if (peer == any_source || !reasons[static_cast<std::size_t>(peer)]) return nullptr;
    return std::make_exception_ptr(PeerLost(
        Rank{peer},
        fmt::format("rank {} lost rank {} ({}) while it waited to {} a message with tag {}: find "
                    "out why rank {} ended",
                    self_, peer, *reasons[static_cast<std::size_t>(peer)],
                    transfer.sends ? "send" : "receive", transfer.tag, peer)));
  };
  const auto late = [&](MessageTransfer& transfer) -> std::exception_ptr {
    if (waited(transfer.since, now) <= timeout) return nullptr;
    return std::make_exception_ptr(TimedOut(fmt::format(
        "rank {} waited {} s for a message from {} with tag {}: see what the sender does, or raise "
        "CAPSTAN_TIMEOUT",
        self_, std::chrono::duration<double>(timeout).count(),
        transfer.peer == any_source ? "any rank" : fmt::format("rank {}", transfer.peer),
        transfer.tag == any_tag ? "any value" : fmt::to_string(transfer.tag))));
  };

  std::vector<std::pair<TransferPointer, std::exception_ptr>> failed;
  const auto fail_if = [&](const TransferPointer& transfer, const std::exception_ptr& error) {
    if (error) failed.emplace_back(transfer, error);
    return error != nullptr;
  };
  std::erase_if(posted_, [&](const TransferPointer& transfer) {
    const auto error = lost(*transfer, transfer->peer);
    return fail_if(transfer, error ? error : late(*transfer));
  });
  std::erase_if(incoming_, [&](const Incoming& incoming) {
    const auto error = lost(*incoming.transfer, incoming.source);
    return fail_if(incoming.transfer, error ? error : late(*incoming.transfer));
  });
  std::erase_if(offered_, [&](const auto& offer) {
    return fail_if(offer.second, lost(*offer.second, offer.second->peer));
  });
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == self_ || !reasons[static_cast<std::size_t>(peer)]) continue;
    for (const Outgoing& outgoing : std::exchange(outgoing_[static_cast<std::size_t>(peer)], {})) {
      --queued_;
      if (outgoing.transfer) fail_if(outgoing.transfer, lost(*outgoing.transfer, peer));
    }
    for (const auto& transfer : take_sending(peer)) fail_if(transfer, lost(*transfer, peer));
  }
  for (const auto& [transfer, error] : failed)
    finish(transfer, error, transfer->peer, transfer->tag, 0);
  check_sends(now, timeout);
}

/// Has the transport watch the peers that messages are expected from.
void Messages::watch_sources() {
  for (const TransferPointer& transfer : posted_)
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != self_ && (transfer->peer == peer || transfer->peer == any_source))
        peers_.transport().watch(Rank{peer});
}

/// Throws TimedOut for a send that has waited too long. Its peer may be reading the buffer, and
/// only the end of the communicator stops it.
void Messages::check_sends(Time now, std::chrono::milliseconds timeout) {
  const auto fail = [&](const MessageTransfer& transfer) {
    throw TimedOut(fmt::format(
        "rank {} waited {} s for rank {} to take a message of {} bytes with tag {}: see what rank "
        "{} does instead and whether its host can be reached, or raise CAPSTAN_TIMEOUT",
        self_, std::chrono::duration<double>(timeout).count(), transfer.peer, transfer.size,
        transfer.tag, transfer.peer));
  };
  for (auto& [id, transfer] : offered_)
    if (waited(transfer->since, now) > timeout) fail(*transfer);
  for (std::size_t peer = 0; peer < outgoing_.size(); ++peer) {
    const auto waiting = std::ranges::find_if(
        outgoing_[peer], [](const Outgoing& outgoing) { return outgoing.transfer != nullptr; });
    const MessageTransfer* const first = !sending_[peer].empty() ? sending_[peer].front().get()
                                         : waiting != outgoing_[peer].end()
                                             ? waiting->transfer.get()
                                             : nullptr;
    if (!first)
      full_since_[peer] = {};
    else if (waited(full_since_[peer], now) > timeout)
      fail(*first);
  }
}

/// Counts from the first check that found no progress: before it the program may have been busy
/// elsewhere.
Messages::Time::duration Messages::waited(Time& since, Time now) {
  if (since == Time{}) since = now;
  return now - since;
}

void Messages::fail_all(const std::exception_ptr& error) {
  // The failure of this rank has been published. Peers that saw it too late are waited for, before
  // callers get their buffers back.
  if (!offered_.empty()) peers_.wait_for_users();
  std::vector<TransferPointer> transfers(posted_.begin(), posted_.end());
  for (const Incoming& incoming : incoming_) transfers.push_back(incoming.transfer);
  for (const auto& offer : offered_) transfers.push_back(offer.second);
  for (const auto& waiting : outgoing_)
    for (const Outgoing& outgoing : waiting)
      if (outgoing.transfer) transfers.push_back(outgoing.transfer);
  for (int peer = 0; peer < ranks_; ++peer)
    for (const TransferPointer& transfer : take_sending(peer)) transfers.push_back(transfer);
  posted_.clear();
  incoming_.clear();
  offered_.clear();
  for (auto& waiting : outgoing_) waiting.clear();
  queued_ = 0;
  for (const TransferPointer& transfer : transfers)
    finish(transfer, error, transfer->peer, transfer->tag, 0);
}

}  // namespace capstan
