// SPDX-License-Identifier: Apache-2.0
#include "handle.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "../../python_callbacks.hpp"
#include "errors.hpp"
#include "signals.hpp"

namespace capstan::pytorch {

Handle::~Handle() {
  if (launched_) return;
  for (const capstan::Work& work : works_) work.withdraw();
}

void Handle::give(std::vector<at::Tensor> outputs) {
  std::move(outputs.begin(), outputs.end(), std::back_inserter(outputs_));
}

void Handle::launch(const HandlePtr& handle) {
  handle->launched_ = true;
  // One more, so that the last is counted here if all end at once.
  handle->running_ = handle->works_.size() + 1;
  for (const capstan::Work& work : handle->works_) {
    // The last to hold it may be a thread of the library, and tensors have parts in Python.
    auto* const held = new HandlePtr(handle);
    work.on_complete([held](const capstan::Work&) {
      PythonCallbacks::of_process().run([held] {
        (*held)->one_ended();
        delete held;
      });
    });
  }
  handle->one_ended();
}

void Handle::one_ended() {
  if (--running_ > 0) return;
  if (isSuccess()) settle();
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    ended_ = true;
    future = future_;
  }
  if (future) complete(*future);
}

/// The error of the work is what copying results back throws.
void Handle::settle() {
  std::call_once(settled_, [this] {
    try {
      tensors_.settle();
    } catch (...) {
      const std::lock_guard lock(future_mutex_);
      unsettled_ = std::current_exception();
    }
  });
}

bool Handle::all_ended() const {
  return launched_ && std::all_of(works_.begin(), works_.end(),
                                  [](const capstan::Work& work) { return work.has_ended(); });
}

bool Handle::isCompleted() {
  if (!launched_) return false;
  const auto at_once = Deadline::in(std::chrono::seconds{0});
  if (!works_.empty() && !capstan::Work::wait_all(works_, at_once)) return false;
  if (isSuccess()) settle();
  return true;
}

bool Handle::isSuccess() const {
  return all_ended() && !exception();
}

std::exception_ptr Handle::exception() const {
  for (const capstan::Work& work : works_) {
    if (const auto error = work.error()) return translated(error);
    if (work.is_cancelled())
      return std::make_exception_ptr(
          std::runtime_error(fmt::format("{} was aborted by this rank", work.describe())));
  }
  const std::lock_guard lock(future_mutex_);
  return unsettled_;
}

int Handle::sourceRank() const {
  const auto message = works_.size() == 1 ? works_.front().message() : std::nullopt;
  if (!message) fail("sourceRank() is for a receive that has completed");
  return message->source;
}

std::chrono::milliseconds saturated(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds least = std::chrono::hours{-24 * 365 * 1000};
  return timeout < least ? timeout.max() : timeout;
}

std::chrono::milliseconds limit_of(std::chrono::milliseconds asked,
                                   std::chrono::milliseconds otherwise) {
  asked = saturated(asked);
  if (asked < c10d::kUnsetTimeout)
    refuse(
        fmt::format("a time-out of {} s is no duration: pass one above 0", asked.count() / 1000.0));
  return asked > kNoTimeout ? asked : otherwise;
}

bool Handle::wait(std::chrono::milliseconds timeout) {
  if (!launched_) refuse("this work is part of a batch that has not been started: end it first");
  const auto limit = limit_of(timeout, limit_);
  const auto deadline = limit > kNoTimeout ? Deadline::in(limit) : Deadline::never();
  translating([&] {
    for (const capstan::Work& work : works_)
      if (!ends_before(work, deadline))
        throw TimedOut(
            fmt::format("rank {}: Timed out after {}: {} has not ended; it continues: "
                        "see what the other ranks do, or wait for longer",
                        rank_, deadline.budget(), work.describe()));
  });
  settle();
  if (const auto error = exception()) std::rethrow_exception(error);
  return true;
}

void Handle::abort() {
  for (const capstan::Work& work : works_) work.cancel();
}

c10::intrusive_ptr<c10::ivalue::Future> Handle::getFuture() {
  bool ended = false;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    if (future_) return future_;
    future = future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    ended = ended_;
  }
  if (ended) complete(*future);
  for (const capstan::Work& work : works_) work.ensure_progress();
  return future;
}

void Handle::complete(c10::ivalue::Future& future) {
  if (const auto error = exception())
    future.setError(error);
  else
    future.markCompleted(c10::IValue(outputs_));
}

}  // namespace capstan::pytorch
