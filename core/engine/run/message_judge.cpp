// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/message_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/engine/run/progress.hpp"

namespace capstan {
namespace {

std::string tag_of(const Messages::MessageTransfer& transfer) {
  return transfer.tag == any_tag ? "any tag" : fmt::format("tag {}", transfer.tag);
}

/// "for a message from rank 1 with tag 7", "for rank 1 to take a message of 800 bytes with tag 7".
std::string description(const Messages::MessageTransfer& transfer, Rank peer) {
  const std::string who =
      peer == Rank{any_source} ? "any source" : fmt::format("rank {}", peer.value());
  if (transfer.forms_group) return fmt::format("for {} in create_group()", who);
  if (transfer.sends)
    return fmt::format("for {} to take a message of {} bytes with {}", who, transfer.size,
                       tag_of(transfer));
  return fmt::format("for a message from {} with {}", who, tag_of(transfer));
}

}  // namespace

std::optional<std::string> Engine::Judge::gone(Rank peer) {
  auto reason = engine_.watchdog_.departed(peer);
  if (reason && !engine_.peers_.left(peer)) dead_.push_back(peer);
  return reason;
}

bool Engine::Judge::all_losses_are_known() {
  if (dead_.empty()) return true;
  return engine_.lost_senders_.are_complete(dead_.size(), engine_.watch_others(), now_);
}

std::exception_ptr Engine::Judge::lost_probe(const Messages::MessageTransfer& wanted) {
  const auto& others = engine_.peers_.others();
  const bool any = wanted.peer == any_source;
  Rank last{wanted.peer};
  std::optional<std::string> reason;
  bool all_gone = true;
  for (const Rank peer : others) {
    if (any || peer == last) engine_.transport_->watch(peer);
    auto why = gone(peer);
    if (!any && peer != last) continue;
    all_gone &= why.has_value();
    if (why) reason = std::move(why), last = peer;
  }
  if (!reason || !all_gone || !all_losses_are_known()) return nullptr;
  return lost(wanted, last, *reason);
}

std::exception_ptr Engine::Judge::lost(const Messages::MessageTransfer& transfer, Rank peer,
                                       const std::string& reason) {
  Wait own = engine_.message_wait(transfer, transfer.peer, {});
  for (const Rank dead : dead_)  // whether this message needs them or not
    if (const Rank rank = engine_.world_rank(dead);
        std::ranges::find(own.peers, rank) == own.peers.end())
      own.peers.push_back(rank);
  std::ranges::sort(own.peers);
  if (transfer.since != Time{})
    own.waited = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - transfer.since);
  const auto what = fmt::format(
      "Rank {} lost rank {} ({}) while it waited {}{}", engine_.self_.value(), peer.value(), reason,
      description(transfer, Rank{transfer.peer}), engine_.names_.of_group());
  return noted(engine_.error_of(engine_.diagnose(own, now_), what, peer));
}

std::exception_ptr Engine::Judge::late(const Messages::MessageTransfer& transfer, Rank peer,
                                       Time::duration waited) {
  if (!engine_.is_late(waited)) return nullptr;
  const auto own = engine_.message_wait(transfer, peer.value(), waited);
  const Diagnosis diagnosis = engine_.diagnose(own, now_);
  if (engine_.may_wait_longer(diagnosis, waited)) return nullptr;
  const auto what = fmt::format("Rank {} waited {} s {}{}", engine_.self_.value(),
                                std::chrono::duration<double>(engine_.settings_.timeout).count(),
                                description(transfer, peer), engine_.names_.of_group());
  return noted(engine_.error_of(diagnosis, what, peer));
}

/// A receive fails alone, and what this rank does next may keep others waiting.
std::exception_ptr Engine::Judge::noted(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& thrown) {
    engine_.note_failure(thrown);
  }
  return error;
}

}  // namespace capstan
