// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "capstan/async/execute.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Calls handlers when operations end: handlers of all operations, of those that were started with
/// one id, and of one operation.
///
/// A handler is called once for each operation that ends after the handler was added, on the thread
/// that moves the operation on (a progress thread is started if there is none), with no lock held.
/// A handler may start operations, here too, and wait for them. A completed operation goes to
/// on_complete handlers. An operation that failed or was cancelled goes to on_error handlers, with
/// the error that wait() throws. An exception from an on_complete handler goes to the on_error
/// handlers; an exception from an on_error handler is logged.
///
/// Each on_complete() and on_error() returns a subscription, which end() takes.
///
/// Thread-safe. The destructor waits for handlers that run on other threads; after it no handler is
/// called any more. Operations run on.
class OperationEvents {
 public:
  using OnComplete = std::function<void(const Work&)>;
  using OnError = std::function<void(const Work&, std::exception_ptr)>;

  OperationEvents();
  ~OperationEvents();
  OperationEvents(const OperationEvents&) = delete;

  /// A handler that was added.
  enum class Subscription : std::uint64_t {};

  /// For all operations. Throws InvalidArgument if the handler is empty, as the next four do.
  Subscription on_complete(OnComplete handler);
  Subscription on_error(OnError handler);
  /// For operations with this id.
  Subscription on_complete(int id, OnComplete handler);
  Subscription on_error(int id, OnError handler);
  /// Removes a handler. It is not called any more when this returns, so this waits while another
  /// thread runs it; not when called by a handler, so that handlers may end each other. False if
  /// there is no such handler any more.
  bool end(Subscription subscription);

  /// Starts an operation under an id, which may be used again. `on_complete` is for this operation
  /// only, and may be left out.
  template <StartsOperation Start>
  Work start(int id, Start start, OnComplete on_complete = nullptr) {
    Work work = start();
    watch(id, work, std::move(on_complete));
    return work;
  }

 private:
  void watch(int id, const Work& work, OnComplete on_complete);

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace CAPSTAN_EXPORT capstan
