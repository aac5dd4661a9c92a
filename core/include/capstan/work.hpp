#pragma once

#include <chrono>
#include <coroutine>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "capstan/error.hpp"
#include "capstan/export.hpp"
#include "capstan/operation.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A handle of an operation that was started: cheap to copy, all copies mean the same operation.
///
/// An operation moves on while a thread waits for any operation of its rank, or by the progress
/// thread (Settings::progress_thread). Its buffers belong to it until it has completed, failed or
/// been cancelled; dropping all handles does not end it. All functions are thread-safe.
///
/// cancel() is local: it gives the buffers back and makes wait() throw Cancelled. Internally the
/// operation goes on with private copies, so that the other ranks get their results and the
/// communicator stays usable. The output of a cancelled operation is undefined.
class Work {
 public:
  using Callback = std::function<void(const Work&)>;

  /// An empty handle: all functions but valid() throw InvalidArgument.
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

  bool valid() const { return operation_ != nullptr; }
  /// Whether the operation has ended: completed, failed or been cancelled.
  bool is_completed() const { return operation().ended(); }
  bool is_cancelled() const { return operation().state() == Operation::State::cancelled; }
  /// "all_reduce(1000 x f32, sum)".
  const std::string& describe() const { return operation().text(); }

  /// Returns when the operation has completed. Throws the error of the operation, or Cancelled.
  void wait() const;
  /// False when the operation has not ended in time; it then runs on. Throws like wait().
  bool wait_for(std::chrono::nanoseconds timeout) const {
    return wait_until(Deadline::in(timeout));
  }
  bool wait_until(Deadline deadline) const;

  /// True: the caller's buffers are free now. False: the operation had ended already, or a peer is
  /// using the buffers and does not finish in time, as its process has been stopped.
  bool cancel() const;
  /// Cancels the operation or, where that is refused, waits until the operation has ended in any
  /// way. The caller's buffers are free then.
  void withdraw() const;

  /// The output of a completed operation; on a device if the output lies there. Throws the error of
  /// the operation, Cancelled, or InvalidArgument when the operation has not ended or T is not the
  /// output's type.
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

  /// A future that becomes ready when the operation ends. Waiting for a future moves nothing on, so
  /// this starts the progress thread if there is none.
  std::future<void> future() const;

  /// co_await work: resumes on the thread that moves the operation on, and throws like wait().
  auto operator co_await() const {
    struct Awaiter {
      Work work;
      bool await_ready() const { return work.is_completed(); }
      void await_suspend(std::coroutine_handle<> coroutine) const {
        work.operation_->when_ended([coroutine](Operation&) { coroutine.resume(); });
      }
      void await_resume() const { work.throw_unless_completed(); }
    };
    operation();
    return Awaiter{*this};
  }

  /// The index of a work that has ended, the first if there are several; nothing when the deadline
  /// passes before. Throws InvalidArgument when `works` are empty.
  static std::optional<std::size_t> wait_any(std::span<const Work> works,
                                             Deadline deadline = Deadline::never());
  /// Whether all works have ended before the deadline; they may have failed.
  static bool wait_all(std::span<const Work> works, Deadline deadline = Deadline::never());

 private:
  Operation& operation() const;
  void throw_unless_completed() const;
  const Operation::Output& checked_output(DataType type) const;

  std::shared_ptr<Operation> operation_;
};

}  // namespace capstan
