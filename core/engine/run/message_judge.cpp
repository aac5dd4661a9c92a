// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/message_judge.hpp"

#include <fmt/format.h>

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

std::exception_ptr Engine::Judge::lost(const Messages::MessageTransfer& transfer, Rank peer,
                                       const std::string& reason) {
  Wait own = engine_.message_wait(transfer, peer.value(), {});
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
