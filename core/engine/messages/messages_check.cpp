// SPDX-License-Identifier: Apache-2.0

// How messages end when peers are gone or slow, or when the communicator has failed.

#include <algorithm>
#include <map>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/messages/messages.hpp"

namespace capstan {

void Messages::check(Time now, Judge& judge) {
  watch_sources();
  ByRank<std::optional<std::string>> reasons(ranks_);
  for (const Rank peer : peers_.others()) reasons[peer] = judge.gone(peer);
  if (!judge.all_losses_are_known()) reasons = ByRank<std::optional<std::string>>(ranks_);
  advance();  // messages that a peer sent before it ended are still received
  const auto is_gone = [&](Rank peer) { return reasons[peer].has_value(); };
  const bool all_gone = ranks_ > 1 && std::ranges::all_of(peers_.others(), is_gone);
  const auto lost = [&](const MessageTransfer& transfer, int peer) -> std::exception_ptr {
    if (peer == any_source && !all_gone) return nullptr;
    const Rank culprit = peer == any_source ? peers_.others().front() : Rank{peer};
    return reasons[culprit] ? judge.lost(transfer, culprit, *reasons[culprit]) : nullptr;
  };

  std::vector<Incoming> complete;
  std::vector<std::pair<TransferPointer, std::exception_ptr>> failed;
  const auto fail_if = [&](const TransferPointer& transfer, const std::exception_ptr& error) {
    if (error) failed.emplace_back(transfer, error);
    return error != nullptr;
  };
  const auto fail_if_lost_or_late = [&](const TransferPointer& transfer, int peer) {
    return fail_if(transfer, lost(*transfer, peer)) ||
           fail_if(transfer, judge.late(*transfer, Rank{peer}, waited(transfer->since, now)));
  };
  std::erase_if(posted_, [&](const TransferPointer& transfer) {
    return fail_if_lost_or_late(transfer, transfer->peer);
  });
  std::erase_if(incoming_, [&](const Incoming& incoming) {
    if (!incoming.complete())
      return fail_if_lost_or_late(incoming.transfer, incoming.source.value());
    // It is here, and only its sender does not look for the acknowledgement.
    if (!is_gone(incoming.source) && !judge.is_late(waited(incoming.transfer->since, now)))
      return false;
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
  check_sends(now, judge);
}

/// Has the transport watch the peers that messages are expected from.
void Messages::watch_sources() {
  for (const TransferPointer& transfer : posted_)
    for (const Rank peer : peers_.others())
      if (transfer->peer == any_source || Rank{transfer->peer} == peer)
        peers_.transport().watch(peer);
}

/// Throws the error of a send that has waited too long. Its peer may be reading the buffer, and
/// only the end of the communicator stops it.
void Messages::check_sends(Time now, Judge& judge) {
  const auto check = [&](const MessageTransfer& transfer, Time& since) {
    if (const auto error = judge.late(transfer, Rank{transfer.peer}, waited(since, now)))
      std::rethrow_exception(error);
  };
  for (auto& [id, transfer] : offered_) {
    // A card reads one message after the other: those that it has not come to wait no longer than
    // the one that it reads.
    if (transfer->exposed && takes_offers_[Rank{transfer->peer}] != 0) transfer->since = {};
    check(*transfer, transfer->since);
  }
  for (const Rank peer : peers_.others()) takes_offers_[peer] = 0;
  for (const Rank peer : peers_.others()) {
    if (const MessageTransfer* const first = first_unsent(peer))
      check(*first, full_since_[peer]);
    else
      full_since_[peer] = {};
  }
}

/// The first send to a peer whose frames have not all left this rank.
const Messages::MessageTransfer* Messages::first_unsent(Rank peer) const {
  if (!sending_[peer].empty()) return sending_[peer].front().get();
  const auto waiting = std::ranges::find_if(
      outgoing_[peer], [](const Outgoing& outgoing) { return outgoing.transfer != nullptr; });
  return waiting == outgoing_[peer].end() ? nullptr : waiting->transfer.get();
}

std::vector<Messages::Awaited> Messages::awaited() const {
  std::map<std::pair<int, bool>, Awaited> oldest;
  const auto add = [&](int peer, const MessageTransfer& transfer, Time since) {
    if (since == Time{}) return;
    const Awaited candidate{peer, &transfer, since};
    const auto [known, is_new] = oldest.try_emplace({peer, transfer.sends}, candidate);
    if (!is_new && since < known->second.since) known->second = candidate;
  };
  for (const TransferPointer& transfer : posted_) add(transfer->peer, *transfer, transfer->since);
  for (const Incoming& incoming : incoming_)
    add(incoming.source.value(), *incoming.transfer, incoming.transfer->since);
  for (const auto& [id, transfer] : offered_) add(transfer->peer, *transfer, transfer->since);
  for (const Rank peer : peers_.others())
    if (const MessageTransfer* const first = first_unsent(peer))
      add(peer.value(), *first, full_since_[peer]);
  std::vector<Awaited> all;
  for (const auto& [key, awaited] : oldest) all.push_back(awaited);
  return all;
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
  if (!offered_.empty() || queued_ > 0) peers_.wait_for_users();
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
