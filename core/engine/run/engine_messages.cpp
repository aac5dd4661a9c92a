// SPDX-License-Identifier: Apache-2.0

// Messages of a communicator: started together, looked for, waited for, cancelled.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/message_judge.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {
namespace {

constexpr std::chrono::milliseconds probe_interval{20};

}  // namespace

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
    progress_->waits().forget_failure();
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

/// Tells what a caller waits for who is in no operation, as long as this object exists.
class Engine::ToldProbe {
 public:
  ToldProbe(Engine& engine, Probe probe) : engine_(engine) {
    const Progress::Lock lock{*engine_.progress_};
    probe_ = engine_.probes_.insert(engine_.probes_.end(), std::move(probe));
  }
  ~ToldProbe() {
    const Progress::Lock lock{*engine_.progress_};
    engine_.probes_.erase(probe_);
  }
  ToldProbe(const ToldProbe&) = delete;

 private:
  Engine& engine_;
  std::list<Probe>::iterator probe_;
};

MessageInfo Engine::wait_for_message(int source, int tag, const std::function<void()>& between) {
  const Messages::MessageTransfer wanted{.peer = source, .tag = tag};
  std::optional<MessageInfo> found = look_for_message(source, tag);  // checks the arguments, too
  if (found) return *found;
  const auto began = std::chrono::steady_clock::now();
  const ToldProbe told{*this, {wanted, began}};
  auto next_check = began + probe_interval;
  const auto look = [&] {
    found = look_for_message(source, tag);
    const auto now = std::chrono::steady_clock::now();
    if (found || now < next_check) return found.has_value();
    next_check = now + probe_interval;
    const auto error = check_probe(wanted, now, began);
    if (error) found = look_for_message(source, tag);  // sent before the source ended
    if (error && !found) std::rethrow_exception(error);
    return found.has_value();
  };
  while (!progress_->drive(look, between ? Deadline::in(probe_interval) : Deadline::never()))
    between();
  return *found;
}

/// A probe is no operation that check() looks after: what ends the communicator on another rank
/// ends it, too. Throws the failure.
void Engine::adopt_failures() {
  try {
    receive_from_hosts();
    watchdog_.check_aborts();
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
  if (failure_) failure_->raise();
}

/// The error of a probe whose source is gone, or that has waited too long.
std::exception_ptr Engine::check_probe(const Messages::MessageTransfer& wanted, Time now,
                                       Time began) {
  const Progress::Lock lock{*progress_};
  adopt_failures();
  Judge judge{*this, now};
  if (auto error = judge.lost_probe(wanted)) return error;
  return judge.late(wanted, Rank{wanted.peer}, now - began);
}

/// A program that asks again and again learns that its source is gone, as one that waits does.
std::optional<MessageInfo> Engine::probe(int source, int tag) {
  auto found = look_for_message(source, tag);
  const auto now = std::chrono::steady_clock::now();
  if (found) return found;
  const Progress::Lock lock{*progress_};
  if (now < next_probe_check_) return found;
  next_probe_check_ = now + probe_interval;
  adopt_failures();
  const auto error = Judge{*this, now}.lost_probe({.peer = source, .tag = tag});
  if (!error) return found;
  messages_.advance();
  found = messages_.probe(source, tag);  // sent before the source ended
  if (!found) std::rethrow_exception(error);
  return found;
}

std::optional<MessageInfo> Engine::look_for_message(int source, int tag) {
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
