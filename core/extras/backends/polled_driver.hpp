// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "capstan/work.hpp"

namespace capstan {

/// An operation of another library that is under way. Used by one thread at a time.
class NativeOperation {
 public:
  NativeOperation() = default;
  NativeOperation(const NativeOperation&) = delete;
  virtual ~NativeOperation() = default;
  /// Whether it has ended; moves it on where the library needs that. Throws its error.
  virtual bool test() = 0;
  /// The message of a receive that has ended.
  virtual std::optional<MessageInfo> message() const { return {}; }
  /// Why it has not ended, for TimedOut: "rank 1 has not called it". May be empty.
  virtual std::string missing() const { return {}; }
};

/// Progresses operations of another library by asking it whether they have ended. Callers do so
/// while they wait, and so does a thread, once ensure_progress() has been called. A thread that
/// runs callbacks leaves that to another one, which is started when it is needed: callbacks may
/// wait for anything.
class PolledDriver : public Driver, public std::enable_shared_from_this<PolledDriver> {
 public:
  struct Options {
    std::string owner;  ///< "rank 1: mpi", for errors
    std::chrono::milliseconds timeout;
    /// Why no thread but those that wait may move operations on; empty if any may.
    std::string no_thread;
  };
  explicit PolledDriver(Options options) : options_(std::move(options)) {}

  /// `finish`, which may be empty, runs when the library has finished and before the operation
  /// completes.
  Work start(std::string text, std::optional<Operation::Output> output,
             std::unique_ptr<NativeOperation> progress, std::function<void()> finish);
  /// To be called once at the end, also for the thread. What is pending fails with Aborted; its
  /// memory stays, as the library may still use it.
  void close(const std::string& reason);
  bool is_idle() {
    const std::lock_guard lock{mutex_};
    return pending_.empty();
  }
  /// Runs `body` while no operation is tested.
  template <class Body>
  auto alone(const Body& body) {
    const std::lock_guard lock{mutex_};
    return body();
  }

  bool drive(const std::function<bool()>& done, Deadline deadline) override;
  void advance() override;
  /// Always refused: the library may be using the buffers.
  bool cancel(Operation&) override { return false; }
  void ensure_progress() override;
  void require_own_process() const override;

 private:
  struct Pending {
    std::shared_ptr<Operation> operation;
    std::unique_ptr<NativeOperation> progress;
    std::function<void()> finish;
    Deadline deadline;
  };
  struct Ended {
    std::shared_ptr<Operation> operation;
    std::optional<MessageInfo> message;
    std::exception_ptr error;
    bool in_use;  ///< its time is over, and the library may still use its memory
  };
  static void keep_for_ever(std::list<Pending> pending);
  /// Under the lock: operations to be tested or announced.
  bool has_work() const { return !pending_.empty() || !ended_.empty(); }
  bool test_all();
  std::optional<Ended> test(Pending& pending) const;
  std::optional<Ended> next_ended();
  bool announce();
  void add_thread();
  void hand_over();
  void run_thread();
  void lead();

  const Options options_;
  const pid_t process_ = ::getpid();
  std::mutex mutex_;  // of all that follows
  std::list<Pending> pending_;
  std::deque<Ended> ended_;           // not announced yet
  std::condition_variable_any work_;  // wakes a thread
  std::stop_source stop_;             // of the threads
  std::vector<std::jthread> threads_;
  int threads_waiting_ = 0;                  // for operations
  std::optional<std::thread::id> leader_{};  // the thread that tests operations
};

}  // namespace capstan
