// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/export.hpp"
#include "capstan/message_info.hpp"
#include "capstan/types.hpp"

namespace CAPSTAN_EXPORT capstan {

class Operation;

/// Moves operations on; implemented by the engine. Thread-safe.
class Driver {
 public:
  virtual ~Driver() = default;

  /// Runs operations until done() or the deadline; returns done(). Callbacks of operations that end
  /// meanwhile run in here or on the progress thread, with no lock held. Re-entrant: a callback may
  /// start operations and may wait for them.
  virtual bool drive(const std::function<bool()>& done, Deadline deadline) = 0;

  /// Moves operations on as far as they go at this moment, and returns. Callbacks as in drive().
  virtual void advance() = 0;

  /// Detaches an operation from its caller's buffers. When this returns true, the buffers are
  /// neither read nor written any more, and operation.cancelled() has been called. The operation
  /// continues with private copies, so that peers get the data that they expect. False if the
  /// operation had ended already.
  virtual bool cancel(Operation& operation) = 0;

  /// From now on operations move on while no thread waits: starts the progress thread.
  virtual void ensure_progress() = 0;

  /// The same, for operations that are to continue beside a computation. False if they can hardly
  /// do so, as no core is free for them.
  virtual bool ensure_overlap() {
    ensure_progress();
    return true;
  }

  /// Throws InvalidArgument in a forked child, where no operation moves on. All of the above do so,
  /// too.
  virtual void require_own_process() const = 0;
};

/// The state that all handles of one operation share. Thread-safe.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  enum class State : std::uint8_t { pending, completed, failed, cancelled };
  using Callback = std::function<void(Operation&)>;

  /// The memory that will hold the operation's result.
  struct Output {
    DataType type{};
    void* data = nullptr;
    std::size_t count = 0;
  };

  /// `text` names it in errors: "all_reduce(1000 x f32, sum)". No output: it has no result.
  Operation(std::shared_ptr<Driver> driver, std::string text, std::optional<Output> output)
      : driver_(std::move(driver)), text_(std::move(text)), output_(output) {}
  virtual ~Operation() = default;

  State state() const { return state_.load(std::memory_order_acquire); }
  bool ended() const { return state() != State::pending; }

  // The first of these calls ends the operation and runs the callbacks; later ones do nothing.
  void complete(std::optional<MessageInfo> message = {}) {
    end(State::completed, nullptr, message);
  }
  void fail(std::exception_ptr error) { end(State::failed, std::move(error)); }
  void cancelled() { end(State::cancelled, nullptr); }
  /// Ends the operation, with an error or without. Returns the callbacks, for the caller to run, or
  /// to drop where the process exits: what they refer to may be gone.
  [[nodiscard]] std::vector<Callback> settle(std::exception_ptr error,
                                             std::optional<MessageInfo> message);

  /// For a result whose memory is known at the end only; before complete().
  void set_output(std::optional<Output> output) { output_ = output; }

  /// Runs `callback` once: at once if the operation has ended, else on the thread that ends it.
  /// Throws InvalidArgument if the operation has not ended and this is a forked child.
  void when_ended(Callback callback);

  const std::shared_ptr<Driver>& driver() const { return driver_; }
  const std::string& text() const;
  // To be read after the end.
  const std::optional<Output>& output() const { return output_; }
  const std::exception_ptr& error() const { return error_; }
  const std::optional<MessageInfo>& message() const { return message_; }

 protected:
  /// The text, where the constructor has got none. Called once at most.
  virtual std::string make_text() const { return "an operation"; }

 private:
  void end(State state, std::exception_ptr error, std::optional<MessageInfo> message = {});
  std::vector<Callback> set_end(State state, std::exception_ptr error,
                                std::optional<MessageInfo> message);

  const std::shared_ptr<Driver> driver_;
  mutable std::string text_;  // most operations are never asked for it: it is made when they are
  std::optional<Output> output_;
  std::atomic<State> state_ = State::pending;
  mutable std::mutex mutex_;  // of the end, the callbacks and the text
  std::vector<Callback> callbacks_;
  std::exception_ptr error_;
  std::optional<MessageInfo> message_;
};

}  // namespace CAPSTAN_EXPORT capstan
