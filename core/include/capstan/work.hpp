// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <coroutine>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "capstan/error.hpp"
#include "capstan/export.hpp"
#include "capstan/operation.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A handle of an operation that was started: cheap to copy, all copies mean the same operation.
///
/// An operation moves on while a thread waits for any operation of its rank or asks for its end
/// (is_completed()), or by the progress thread (Settings::progress_thread). Its buffers belong to
/// it until it has completed, failed or been cancelled; dropping all handles does not end it. All
/// functions are thread-safe.
///
/// cancel() is local: it gives the buffers back and makes wait() throw Cancelled. Internally the
/// operation continues with private copies, so that the other ranks get their results and the
/// communicator stays usable. The output of a cancelled operation is undefined.
class Work {
 public:
  using Callback = std::function<void(const Work&)>;

  /// An empty handle: all functions but valid() throw InvalidArgument.
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

  bool valid() const { return operation_ != nullptr; }
  /// Whether the operation has ended: completed, failed or been cancelled. Asking moves it on, so
  /// a loop that asks ends as a wait does; callbacks of what ends meanwhile run in here.
  bool is_completed() const {
    if (operation().ended()) return true;
    operation().driver()->advance();
    return operation().ended();
  }
  /// The same, and moves nothing on: one load.
  bool has_ended() const { return operation().ended(); }
  bool is_cancelled() const { return operation().state() == Operation::State::cancelled; }
  /// "all_reduce(1000 x f32, sum)".
  const std::string& describe() const { return operation().text(); }

  /// Returns when the operation has completed. Throws the error of the operation, or Cancelled.
  void wait() const;
  /// False when the operation has not ended in time; it then runs on. Throws like wait().
  template <class Count, class Period>
  bool wait_for(std::chrono::duration<Count, Period> timeout,
                const std::stop_token& stop = {}) const {
    return wait_until(Deadline::in(timeout), stop);
  }
  bool wait_until(Deadline deadline, const std::stop_token& stop = {}) const;
  /// False when a stop was requested before the operation has ended: the wait ends within 20 ms of
  /// the request, and the operation runs on. So do all waits that take a stop token; one source may
  /// serve many of them.
  [[nodiscard]] bool wait(const std::stop_token& stop) const {
    return wait_until(Deadline::never(), stop);
  }

  /// True: the caller's buffers are free now. False: the operation had ended already, or a peer is
  /// using the buffers and does not finish in time, as its process has been stopped.
  bool cancel() const;
  /// Cancels the operation or, where that is refused, waits until the operation has ended in any
  /// way. The caller's buffers are free then.
  void withdraw() const;

  /// The output of a completed operation; on a device if the output lies there. Throws the error of
  /// the operation, Cancelled, or InvalidArgument when the operation has not ended, has no result
  /// on this rank (barriers, sends, a reduce that has another root), or T is not the output's type.
  template <Element T>
  std::span<T> result() const {
    const Operation::Output& output = checked_output(*data_type_of<T>);
    return {static_cast<T*>(output.data), output.count};
  }
  /// The source, tag and size of the message, of a receive that has completed.
  std::optional<MessageInfo> message() const;
  /// The error of the operation: null if the operation has not ended, has completed, or was
  /// cancelled.
  std::exception_ptr error() const;

  /// Calls `callback` once, when the operation has ended: at once, if it has ended already;
  /// otherwise on the thread that moves the operation on, with no lock held. The callback may start
  /// operations and wait for them. An exception of the callback is logged and goes no further.
  /// Throws InvalidArgument if `callback` is empty.
  void on_complete(Callback callback) const;

  /// From now on the operation moves on while no thread waits: starts the progress thread if there
  /// is none.
  void ensure_progress() const { operation().driver()->ensure_progress(); }
  /// The same for a computation that is to hide the operation, which needs a core for both. False
  /// if none is free: then only a computation that leaves its core (sleeps, waits for a device) can
  /// hide it, and where ranks share cores no thread is started.
  bool ensure_overlap() const { return operation().driver()->ensure_overlap(); }

  /// A future that becomes ready when the operation ends. Waiting for a future moves nothing on, so
  /// this starts the progress thread if there is none.
  std::future<void> future() const;

  /// co_await work: resumes on the thread that moves the operation on, and throws like wait().
  auto operator co_await() const {
    struct Awaiter {
      Work work;
      bool await_ready() const { return work.has_ended(); }
      void await_suspend(std::coroutine_handle<> coroutine) const {
        work.operation_->when_ended([coroutine](Operation&) { coroutine.resume(); });
      }
      void await_resume() const { work.throw_unless_completed(); }
    };
    operation();
    return Awaiter{*this};
  }

  /// The index of a work that has ended, the first if there are several; nothing when the deadline
  /// passes or a stop is requested before. Throws InvalidArgument when `works` are empty.
  static std::optional<std::size_t> wait_any(std::span<const Work> works,
                                             Deadline deadline = Deadline::never(),
                                             const std::stop_token& stop = {});
  /// Whether all works have ended before the deadline and before a stop was requested; they may
  /// have failed.
  static bool wait_all(std::span<const Work> works, Deadline deadline = Deadline::never(),
                       const std::stop_token& stop = {});
  /// Moves these operations on as far as they go at this moment.
  static void advance(std::span<const Work> works);

  /// The state that all handles share, for drivers that stand on other operations.
  const std::shared_ptr<Operation>& state() const { return operation_; }

 private:
  Operation& operation() const;
  void throw_unless_completed() const;
  const Operation::Output& checked_output(DataType type) const;

  std::shared_ptr<Operation> operation_;
};

}  // namespace CAPSTAN_EXPORT capstan
