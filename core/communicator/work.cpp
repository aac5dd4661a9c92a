// SPDX-License-Identifier: Apache-2.0
#include "capstan/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/communicator/report_thrown.hpp"

namespace capstan {
namespace {

/// Waits until done(), driving the drivers of all these works in turn.
bool drive(std::span<const std::shared_ptr<Driver>> drivers, const std::function<bool()>& done,
           Deadline deadline) {
  if (drivers.size() == 1) return drivers.front()->drive(done, deadline);
  constexpr auto turn = std::chrono::milliseconds{1};
  while (!done()) {
    for (const auto& driver : drivers)  // once at least, for callers that ask in a loop
      if (driver->drive(done, Deadline::in(turn).clamp(deadline))) break;
    if (deadline.expired()) return done();
  }
  return true;
}

/// The drivers of works, each once.
std::vector<std::shared_ptr<Driver>> drivers_of(std::span<const Work> works) {
  std::vector<std::shared_ptr<Driver>> drivers;
  for (const Work& work : works)
    if (std::ranges::find(drivers, work.state()->driver()) == drivers.end())
      drivers.push_back(work.state()->driver());
  return drivers;
}

/// Whether an operation has ended before the deadline and before a stop was requested.
bool drive(Operation& operation, Deadline deadline, const std::stop_token& stop) {
  if (operation.ended()) return true;
  const auto done = [&] { return operation.ended() || stop.stop_requested(); };
  operation.driver()->drive(done, deadline);
  return operation.ended();
}

}  // namespace

Operation& Work::operation() const {
  if (!operation_) throw InvalidArgument("this Work means no operation: start one first");
  return *operation_;
}

void Work::throw_unless_completed() const {
  switch (operation().state()) {
    case Operation::State::completed:
      return;
    case Operation::State::failed:
      std::rethrow_exception(operation_->error());
    case Operation::State::cancelled:
      throw Cancelled(fmt::format("{} was cancelled", describe()));
    case Operation::State::pending:
      throw InvalidArgument(fmt::format("{} has not completed: wait for it first", describe()));
  }
}

void Work::wait() const {
  wait_until(Deadline::never());
}

bool Work::wait_until(Deadline deadline, const std::stop_token& stop) const {
  if (!drive(operation(), deadline, stop)) return false;
  throw_unless_completed();
  return true;
}

bool Work::cancel() const {
  Operation& operation = this->operation();
  return !operation.ended() && operation.driver()->cancel(operation);
}

void Work::withdraw() const {
  if (!cancel()) wait_any({this, 1}, Deadline::never());
}

const Operation::Output& Work::checked_output(DataType type) const {
  throw_unless_completed();
  if (!operation_->output())
    throw InvalidArgument(fmt::format("{} has no result on this rank", describe()));
  const Operation::Output& output = *operation_->output();
  if (output.type != type)
    throw InvalidArgument(fmt::format("the result of {} is of type {}, not {}", describe(),
                                      name_of(output.type), name_of(type)));
  return output;
}

std::optional<MessageInfo> Work::message() const {
  return has_ended() ? operation_->message() : std::nullopt;
}

std::exception_ptr Work::error() const {
  return has_ended() ? operation_->error() : nullptr;
}

void Work::on_complete(Callback callback) const {
  if (!callback)
    throw InvalidArgument(fmt::format("on_complete of {}: the callback is empty", describe()));
  operation().when_ended([callback = std::move(callback)](Operation& ended) {
    const Work work{ended.shared_from_this()};
    try {
      callback(work);
    } catch (const std::exception& error) {
      report_thrown("a callback of " + work.describe(), error);
    } catch (...) {
      report_thrown("a callback of " + work.describe(),
                    std::runtime_error{"what is no std::exception"});
    }
  });
}

std::future<void> Work::future() const {
  operation().driver()->ensure_progress();
  auto promise = std::make_shared<std::promise<void>>();
  on_complete([promise](const Work& work) {
    try {
      work.throw_unless_completed();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return promise->get_future();
}

std::optional<std::size_t> Work::wait_any(std::span<const Work> works, Deadline deadline,
                                          const std::stop_token& stop) {
  if (works.empty())
    throw InvalidArgument("wait_any of nothing: there is no operation to wait for");
  for (const Work& work : works) (void)work.operation();
  const auto first_ended = [&] { return std::ranges::find_if(works, &Work::has_ended); };
  const auto done = [&] { return first_ended() != works.end() || stop.stop_requested(); };
  drive(drivers_of(works), done, deadline);
  const auto ended = first_ended();
  if (ended == works.end()) return std::nullopt;
  return static_cast<std::size_t>(ended - works.begin());
}

bool Work::wait_all(std::span<const Work> works, Deadline deadline, const std::stop_token& stop) {
  for (const Work& work : works) (void)work.operation();
  std::span<const Work> pending = works;
  const auto all_ended = [&] {
    while (!pending.empty() && pending.front().has_ended()) pending = pending.subspan(1);
    return pending.empty();
  };
  drive(drivers_of(works), [&] { return all_ended() || stop.stop_requested(); }, deadline);
  return all_ended();
}

void Work::advance(std::span<const Work> works) {
  for (const Work& work : works) (void)work.operation();
  for (const auto& driver : drivers_of(works)) driver->advance();
}

}  // namespace capstan
