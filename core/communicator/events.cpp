// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/events.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/communicator/report_thrown.hpp"

namespace capstan {
namespace {

/// A handler: one of the two functions.
struct Handler {
  std::uint64_t number = 0;
  std::optional<int> id{};  ///< of all operations if there is none
  OperationEvents::OnComplete on_complete{};
  OperationEvents::OnError on_error{};
  int running = 0;     ///< threads that are in it
  bool ended = false;  ///< not called any more

  bool concerns(int operation) const { return !id || *id == operation; }
};
using HandlerPointer = std::shared_ptr<Handler>;

}  // namespace

struct OperationEvents::State {
  std::mutex mutex;
  bool closed = false;
  std::uint64_t last_number = 0;
  std::list<HandlerPointer> handlers;    // in the order in which they were added
  std::vector<std::thread::id> running;  // threads that are calling handlers
  std::condition_variable changed;

  Subscription add(Handler handler) {
    if (!handler.on_complete && !handler.on_error)
      throw InvalidArgument("OperationEvents: the handler is empty: pass a function");
    const std::lock_guard lock{mutex};
    handler.number = ++last_number;
    handlers.push_back(std::make_shared<Handler>(std::move(handler)));
    return Subscription{last_number};
  }

  bool is_handler_thread() const {
    return std::ranges::find(running, std::this_thread::get_id()) != running.end();
  }

  bool remove(Subscription subscription) {
    const auto number = static_cast<std::uint64_t>(subscription);
    std::unique_lock lock{mutex};
    const auto found = std::ranges::find(handlers, number, &Handler::number);
    if (found == handlers.end()) return false;
    const HandlerPointer handler = *found;
    handlers.erase(found);
    handler->ended = true;
    if (!is_handler_thread()) changed.wait(lock, [&] { return handler->running == 0; });
    return true;
  }

  /// The handlers of an operation's end; nothing after the destructor has begun.
  std::optional<std::vector<HandlerPointer>> begin(int id) {
    const std::lock_guard lock{mutex};
    if (closed) return std::nullopt;
    running.push_back(std::this_thread::get_id());
    std::vector<HandlerPointer> theirs;
    for (const bool of_all : {true, false})
      for (const HandlerPointer& handler : handlers)
        if (handler->concerns(id) && handler->id.has_value() != of_all) theirs.push_back(handler);
    return theirs;
  }
  void end() {
    const std::lock_guard lock{mutex};
    running.erase(std::ranges::find(running, std::this_thread::get_id()));
    changed.notify_all();
  }

  /// Calls a handler, unless it has been removed meanwhile.
  template <class Call>
  void run(Handler& handler, Call call) {
    {
      const std::lock_guard lock{mutex};
      if (handler.ended) return;
      ++handler.running;
    }
    struct Leave {
      State& state;
      Handler& handler;
      ~Leave() {
        const std::lock_guard lock{state.mutex};
        --handler.running;
        state.changed.notify_all();
      }
    };
    const Leave leave{*this, handler};
    call();
  }

  void tell_of_error(const std::vector<HandlerPointer>& theirs, const Work& work,
                     const std::exception_ptr& error) {
    for (const HandlerPointer& handler : theirs) try {
        if (handler->on_error) run(*handler, [&] { handler->on_error(work, error); });
      } catch (const std::exception& thrown) {
        report_thrown("an error handler of " + work.describe(), thrown);
      }
  }

  void tell(const std::vector<HandlerPointer>& theirs, const Work& work) {
    try {
      work.wait();
    } catch (...) {
      return tell_of_error(theirs, work, std::current_exception());
    }
    for (const HandlerPointer& handler : theirs) try {
        if (handler->on_complete) run(*handler, [&] { handler->on_complete(work); });
      } catch (...) {
        tell_of_error(theirs, work, std::current_exception());
      }
  }

  /// A handler may destroy the object that calls it; it does not wait for itself.
  void close() {
    std::unique_lock lock{mutex};
    closed = true;
    changed.wait(lock, [&] {
      return std::ranges::all_of(running, [](auto id) { return id == std::this_thread::get_id(); });
    });
  }
};

OperationEvents::OperationEvents() : state_(std::make_shared<State>()) {}

OperationEvents::~OperationEvents() {
  state_->close();
}

OperationEvents::Subscription OperationEvents::on_complete(OnComplete handler) {
  return state_->add({.on_complete = std::move(handler)});
}
OperationEvents::Subscription OperationEvents::on_error(OnError handler) {
  return state_->add({.on_error = std::move(handler)});
}
OperationEvents::Subscription OperationEvents::on_complete(int id, OnComplete handler) {
  return state_->add({.id = id, .on_complete = std::move(handler)});
}
OperationEvents::Subscription OperationEvents::on_error(int id, OnError handler) {
  return state_->add({.id = id, .on_error = std::move(handler)});
}

bool OperationEvents::end(Subscription subscription) {
  return state_->remove(subscription);
}

void OperationEvents::watch(int id, const Work& work, OnComplete on_complete) {
  work.on_complete([state = state_, id, own = std::move(on_complete)](const Work& ended) {
    auto theirs = state->begin(id);
    if (!theirs) return;
    if (own)
      theirs->insert(theirs->begin(), std::make_shared<Handler>(Handler{.on_complete = own}));
    state->tell(*theirs, ended);
    state->end();
  });
  work.ensure_progress();
}

}  // namespace capstan
