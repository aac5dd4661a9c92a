// Messages of a communicator: started together, looked for, waited for, cancelled.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"

namespace capstan {

void Engine::start(const std::vector<Messages::TransferPointer>& transfers,
                   const std::shared_ptr<Operation>& operation) {
  struct Together {
    std::size_t left;
    std::exception_ptr error;
  };
  const auto together = std::make_shared<Together>(Together{transfers.size(), nullptr});
  {
    const Progress::Lock lock{*progress_};
    if (failure_) failure_->raise();
    watch_for_exit();
    for (const auto& transfer : transfers) messages_.check_arguments(*transfer);
    exchanges_[operation.get()] = transfers;
    for (const auto& transfer : transfers)
      transfer->finished = [this, together, operation](std::exception_ptr error,
                                                       const MessageInfo& info) {
        if (error && !together->error) together->error = std::move(error);
        if (--together->left > 0) return;
        exchanges_.erase(operation.get());
        progress_->ended(operation, together->error, info);
      };
    // Receives are posted first: a message to this rank itself then finds its receive.
    for (const auto& transfer : transfers)
      if (!transfer->sends) messages_.receive(transfer);
    for (const auto& transfer : transfers)
      if (transfer->sends) messages_.send(transfer);
    if (!progress_->has_thread()) poll();
  }
  progress_->announce();
  progress_->there_is_work();
}

MessageInfo Engine::wait_for_message(int source, int tag) {
  using Clock = std::chrono::steady_clock;
  constexpr auto interval = std::chrono::milliseconds{20};
  std::optional<MessageInfo> found;
  auto next_check = Clock::now() + interval;
  const auto look = [&] {
    found = probe(source, tag);
    if (found || Clock::now() < next_check) return found.has_value();
    next_check = Clock::now() + interval;
    if (source < 0) return false;
    const auto gone = watched_departure(Rank{source});
    if (!gone) return false;
    found = probe(source, tag);  // a message that the source sent before it ended
    if (!found)
      throw PeerLost(Rank{source},
                     fmt::format("rank {} lost rank {} ({}) while it waited for a message with tag "
                                 "{}: find out why rank {} ended",
                                 self_.value(), source, *gone, tag, source));
    return true;
  };
  if (progress_->drive(look, Deadline::in(settings_.timeout))) return *found;
  throw TimedOut(fmt::format(
      "rank {} waited {} s in probe(source {}, tag {}): see what the sender does, or raise "
      "CAPSTAN_TIMEOUT",
      self_.value(), std::chrono::duration<double>(settings_.timeout).count(), source, tag));
}

std::optional<std::string> Engine::watched_departure(Rank peer) {
  const Progress::Lock lock{*progress_};
  transport_->watch(peer);
  return departed(peer);
}

std::optional<MessageInfo> Engine::probe(int source, int tag) {
  const Progress::Lock lock{*progress_};
  if (failure_) failure_->raise();
  receive_from_hosts();
  messages_.advance();
  return messages_.probe(source, tag);
}

/// Detaches all messages of an exchange, or none.
bool Engine::detach_messages(const Operation& operation) {
  const auto found = exchanges_.find(&operation);
  if (found == exchanges_.end()) return false;
  const auto can = [&](const auto& transfer) { return messages_.can_detach(transfer); };
  if (!std::ranges::all_of(found->second, can)) return false;
  for (const auto& transfer : found->second) messages_.detach(transfer);
  exchanges_.erase(found);
  return true;
}

}  // namespace capstan
