// SPDX-License-Identifier: Apache-2.0

// Messages of a communicator: started together, looked for, waited for, cancelled.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/executor/arrival_poll.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/message_judge.hpp"
#include "core/engine/run/messages_operation.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {
namespace {

constexpr std::chrono::milliseconds probe_interval{20};

}  // namespace

/// Before messages are started, under the lock.
void Engine::begin_messages() {
  if (failure_) failure_->raise();
  watch_for_exit();
  progress_->waits().forget_failure();
}

void Engine::start(MessagesOperation& operation) {
  {
    const Progress::Lock lock{*progress_};
    begin_messages();
    for (const auto& transfer : operation.transfers()) messages_.check_arguments(transfer);
    watch_over(operation);
    // Receives are posted first: a message to this rank itself then finds its receive.
    for (auto& transfer : operation.transfers())
      if (!transfer.sends) messages_.receive(operation.pointer_to(transfer));
    for (auto& transfer : operation.transfers())
      if (transfer.sends) messages_.send(operation.pointer_to(transfer));
    // No poll: other receives may follow, and what has come for them would be stored before.
  }
  progress_->announce();
  progress_->there_is_work();
}

/// Has the operation end with its transfers.
void Engine::watch_over(MessagesOperation& operation) {
  operation.engine_ = this;
  ++exchanges_;
  for (auto& transfer : operation.transfers())
    transfer.finished = [this, &operation](std::exception_ptr error, const MessageInfo& info) {
      message_ended(operation, std::move(error), info);
    };
}

void Engine::message_ended(MessagesOperation& operation, std::exception_ptr error,
                           const MessageInfo& info) {
  if (error && !operation.failed_) operation.failed_ = std::move(error);
  if (--operation.left_ > 0) return;
  operation.engine_ = nullptr;
  --exchanges_;
  for (auto& transfer : operation.transfers())  // a handle may live long
    if (transfer.has_owner()) transfer.special.reset();
  progress_->ended(operation.shared_from_this(), operation.failed_, info);
}

/// Starts a transfer that lies on the stack: whatever fails, nothing refers to it then.
void Engine::begin_unowned(Messages::MessageTransfer& transfer) {
  const Messages::TransferPointer unowned{std::shared_ptr<void>{}, &transfer};
  try {
    transfer.sends ? messages_.send(unowned) : messages_.receive(unowned);
  } catch (...) {
    fail(current_failure());
    failure_->raise();
  }
}

/// Moves a transfer from the stack into an operation.
std::shared_ptr<MessagesOperation> Engine::go_on(Messages::MessageTransfer& transfer,
                                                 const MakeOperation& make) {
  std::shared_ptr<MessagesOperation> operation;
  try {
    operation = make();
  } catch (...) {  // there is no memory
    fail(current_failure());
    throw;
  }
  Messages::MessageTransfer& moved = operation->transfers().front();
  moved = std::move(transfer);
  messages_.replace(transfer, operation->pointer_to(moved));
  watch_over(*operation);
  return operation;
}

/// For as long as a short collective polls, under the lock: nobody else moves anything on.
void Engine::poll_for_message(const bool& done) {
  constexpr int eager = 128;
  const int polls = tasks_.empty() ? std::max(1, spins_ / ranks_) : 1;
  for (int i = 0; !done && i < polls && !progress_->is_awaited(); ++i) {
    poll();
    if (i > eager) ArrivalPoll::relax();
  }
}

std::shared_ptr<MessagesOperation> Engine::start(Messages::MessageTransfer& transfer,
                                                 const MakeOperation& make, MessageEnd& end,
                                                 Until until) {
  std::shared_ptr<MessagesOperation> operation;
  {
    const Progress::Lock lock{*progress_};
    begin_messages();
    messages_.check_arguments(transfer);
    transfer.finished = [&end](std::exception_ptr error, const MessageInfo& info) {
      end = {true, std::move(error), info};
    };
    begin_unowned(transfer);
    if (until == Until::polled) poll_for_message(end.done);
    if (!end.done) operation = go_on(transfer, make);
  }
  progress_->announce();
  if (operation) progress_->there_is_work();
  return operation;
}

MessageInfo Engine::run(Messages::MessageTransfer& transfer, const MakeOperation& make) {
  MessageEnd end;
  const auto operation = start(transfer, make, end, Until::polled);
  if (!operation) {
    if (end.error) std::rethrow_exception(end.error);
    return end.info;
  }
  progress_->drive([&] { return operation->ended(); }, Deadline::never());
  if (operation->error()) std::rethrow_exception(operation->error());
  return operation->message().value();
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

/// Detaches all messages of an operation, or none.
bool Engine::detach_messages(const Operation& operation) {
  auto* const exchange =
      const_cast<MessagesOperation*>(dynamic_cast<const MessagesOperation*>(&operation));
  if (!exchange || exchange->engine_ != this) return false;
  const auto can = [&](auto& transfer) {
    return messages_.can_detach(exchange->pointer_to(transfer));
  };
  if (!std::ranges::all_of(exchange->transfers(), can)) return false;
  for (auto& transfer : exchange->transfers()) messages_.detach(exchange->pointer_to(transfer));
  exchange->engine_ = nullptr;
  --exchanges_;
  return true;
}

}  // namespace capstan
