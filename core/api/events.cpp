#include "capstan/async/events.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/api/report_thrown.hpp"

namespace capstan {
namespace {

struct Handlers {
  std::vector<OperationEvents::OnComplete> on_complete;
  std::vector<OperationEvents::OnError> on_error;

  void append(const Handlers& more) {
    on_complete.insert(on_complete.end(), more.on_complete.begin(), more.on_complete.end());
    on_error.insert(on_error.end(), more.on_error.begin(), more.on_error.end());
  }
};

void tell_of_error(const Handlers& handlers, const Work& work, const std::exception_ptr& error) {
  for (const auto& handler : handlers.on_error) try {
      handler(work, error);
    } catch (const std::exception& thrown) {
      report_thrown("an error handler of " + work.describe(), thrown);
    }
}

void tell(const Handlers& handlers, const Work& work) {
  try {
    work.wait();
  } catch (...) {
    return tell_of_error(handlers, work, std::current_exception());
  }
  for (const auto& handler : handlers.on_complete) try {
      handler(work);
    } catch (...) {
      tell_of_error(handlers, work, std::current_exception());
    }
}

}  // namespace

struct OperationEvents::State {
  std::mutex mutex;
  bool closed = false;
  std::vector<std::thread::id> running;  // threads that are calling handlers
  std::condition_variable changed;
  Handlers for_all;
  std::map<int, Handlers> by_id;

  /// The handlers of an operation's end; none after the destructor has begun.
  bool begin(int id, Handlers& handlers) {
    const std::lock_guard lock{mutex};
    if (closed) return false;
    handlers.append(for_all);
    if (const auto found = by_id.find(id); found != by_id.end()) handlers.append(found->second);
    running.push_back(std::this_thread::get_id());
    return true;
  }
  void end() {
    const std::lock_guard lock{mutex};
    running.erase(std::ranges::find(running, std::this_thread::get_id()));
    changed.notify_all();
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

void OperationEvents::on_complete(OnComplete handler) {
  const std::lock_guard lock{state_->mutex};
  state_->for_all.on_complete.push_back(std::move(handler));
}
void OperationEvents::on_error(OnError handler) {
  const std::lock_guard lock{state_->mutex};
  state_->for_all.on_error.push_back(std::move(handler));
}
void OperationEvents::on_complete(int id, OnComplete handler) {
  const std::lock_guard lock{state_->mutex};
  state_->by_id[id].on_complete.push_back(std::move(handler));
}
void OperationEvents::on_error(int id, OnError handler) {
  const std::lock_guard lock{state_->mutex};
  state_->by_id[id].on_error.push_back(std::move(handler));
}

void OperationEvents::watch(int id, const Work& work, OnComplete on_complete) {
  work.on_complete([state = state_, id, own = std::move(on_complete)](const Work& ended) {
    Handlers handlers;
    if (own) handlers.on_complete.push_back(own);
    if (!state->begin(id, handlers)) return;
    tell(handlers, ended);
    state->end();
  });
  work.ensure_progress();
}

}  // namespace capstan
