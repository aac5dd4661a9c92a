// How messages end when peers are gone or slow, or when the communicator has failed.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/control/peers.hpp"
#include "core/p2p/messages.hpp"

namespace capstan {
namespace {

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::exception_ptr peer_lost(Rank self, Rank lost, const std::string& reason,
                             const Messages::MessageTransfer& transfer) {
  return std::make_exception_ptr(PeerLost(
      lost,
      fmt::format("rank {} lost rank {} ({}) while it waited to {} a message with tag {}: find "
                  "out why rank {} ended",
                  self.value(), lost.value(), reason, transfer.sends ? "send" : "receive",
                  transfer.tag, lost.value())));
}

std::exception_ptr receive_timed_out(Rank self, std::chrono::milliseconds timeout,
                                     const Messages::MessageTransfer& transfer) {
  return std::make_exception_ptr(TimedOut(fmt::format(
      "rank {} waited {} s for a message from {} with tag {}: see what the sender does, or raise "
      "CAPSTAN_TIMEOUT",
      self.value(), seconds(timeout),
      transfer.peer == any_source ? "any rank" : fmt::format("rank {}", transfer.peer),
      transfer.tag == any_tag ? "any value" : fmt::to_string(transfer.tag))));
}

}  // namespace

void Messages::check(Time now, std::chrono::milliseconds timeout,
                     const std::function<std::optional<std::string>(Rank)>& gone) {
  watch_sources();
  ByRank<std::optional<std::string>> reasons(ranks_);
  for (const Rank peer : peers_.others()) reasons[peer] = gone(peer);
  advance();  // messages that a peer sent before it ended are still received
  const auto is_gone = [&](Rank peer) { return reasons[peer].has_value(); };
  const bool all_gone = ranks_ > 1 && std::ranges::all_of(peers_.others(), is_gone);
  const auto lost = [&](const MessageTransfer& transfer, int peer) -> std::exception_ptr {
    if (peer == any_source && !all_gone) return nullptr;
    const Rank culprit = peer == any_source ? peers_.others().front() : Rank{peer};
    return reasons[culprit] ? peer_lost(self_, culprit, *reasons[culprit], transfer) : nullptr;
  };

  std::vector<Incoming> complete;
  std::vector<std::pair<TransferPointer, std::exception_ptr>> failed;
  const auto fail_if = [&](const TransferPointer& transfer, const std::exception_ptr& error) {
    if (error) failed.emplace_back(transfer, error);
    return error != nullptr;
  };
  const auto fail_if_lost_or_late = [&](const TransferPointer& transfer, int peer) {
    if (fail_if(transfer, lost(*transfer, peer))) return true;
    return waited(transfer->since, now) > timeout &&
           fail_if(transfer, receive_timed_out(self_, timeout, *transfer));
  };
  std::erase_if(posted_, [&](const TransferPointer& transfer) {
    return fail_if_lost_or_late(transfer, transfer->peer);
  });
  std::erase_if(incoming_, [&](const Incoming& incoming) {
    if (!incoming.complete())
      return fail_if_lost_or_late(incoming.transfer, incoming.source.value());
    // It is here, and only its sender does not look for the acknowledgement.
    if (!is_gone(incoming.source) && waited(incoming.transfer->since, now) <= timeout) return false;
    complete.push_back(incoming);
    return true;
  });
  std::erase_if(offered_, [&](const auto& offer) {
    return fail_if(offer.second, lost(*offer.second, offer.second->peer));
  });
  for (const Rank peer : peers_.others()) {
    if (!is_gone(peer)) continue;
    for (const Outgoing& outgoing : std::exchange(outgoing_[peer], {})) {
      --queued_;
      if (outgoing.transfer) fail_if(outgoing.transfer, lost(*outgoing.transfer, peer.value()));
    }
    for (const auto& transfer : take_sending(peer))
      fail_if(transfer, lost(*transfer, peer.value()));
  }
  for (const Incoming& incoming : complete) finish(incoming);
  for (const auto& [transfer, error] : failed)
    finish(transfer, error, transfer->peer, transfer->tag, 0);
  check_sends(now, timeout);
}

/// Has the transport watch the peers that messages are expected from.
void Messages::watch_sources() {
  for (const TransferPointer& transfer : posted_)
    for (const Rank peer : peers_.others())
      if (transfer->peer == any_source || Rank{transfer->peer} == peer)
        peers_.transport().watch(peer);
}

/// Throws TimedOut for a send that has waited too long. Its peer may be reading the buffer, and
/// only the end of the communicator stops it.
void Messages::check_sends(Time now, std::chrono::milliseconds timeout) {
  const auto fail = [&](const MessageTransfer& transfer) {
    throw TimedOut(fmt::format(
        "rank {} waited {} s for rank {} to take a message of {} bytes with tag {}: see what rank "
        "{} does instead and whether its host can be reached, or raise CAPSTAN_TIMEOUT",
        self_.value(), seconds(timeout), transfer.peer, transfer.size, transfer.tag,
        transfer.peer));
  };
  for (auto& [id, transfer] : offered_)
    if (waited(transfer->since, now) > timeout) fail(*transfer);
  for (const Rank peer : peers_.others()) {
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

/// The time since the first check that found no progress. Before that check the program may have
/// been busy elsewhere.
Messages::Time::duration Messages::waited(Time& since, Time now) {
  if (since == Time{}) since = now;
  return now - since;
}

void Messages::fail_all(const std::exception_ptr& error) {
  // The failure of this rank has been published. Before callers get their buffers back, this rank
  // waits for peers that may not have seen the failure in time.
  if (!offered_.empty()) peers_.wait_for_users();
  std::vector<TransferPointer> transfers(posted_.begin(), posted_.end());
  for (const Incoming& incoming : incoming_) transfers.push_back(incoming.transfer);
  for (const auto& offer : offered_) transfers.push_back(offer.second);
  for (const auto& waiting : outgoing_)
    for (const Outgoing& outgoing : waiting)
      if (outgoing.transfer) transfers.push_back(outgoing.transfer);
  for (const Rank peer : peers_.others())
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
