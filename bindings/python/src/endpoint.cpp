// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "capstan/async/streams.hpp"
#include "communicator.hpp"

namespace capstan::python {
namespace {

/// All communicators of the process.
struct Communicators {
  std::mutex mutex;
  std::set<Communicator*> all;

  static Communicators& of_process() {
    static auto& communicators = *new Communicators;  // the last go when exit() has begun
    return communicators;
  }
};

/// Calls that wait for nobody, such as report(), end by themselves.
constexpr std::chrono::milliseconds longest_short_call{100};

/// Waits until no other thread is in a call.
bool is_left_alone(const std::shared_ptr<Communicator>& communicator,
                   std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds between_looks{1};
  const Deadline deadline = Deadline::in(patience);
  while (communicator.use_count() > 1) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

/// Ends calls of other threads, which wait for peers, and returns when they have left it.
void end_calls(const std::shared_ptr<Communicator>& communicator) {
  constexpr std::chrono::seconds patience{1};
  try {
    communicator->abort("it was closed while another thread was in a call");
    is_left_alone(communicator, patience);
  } catch (const InvalidArgument&) {  // a forked child, which has no other thread
  }
}

}  // namespace

Endpoint::Endpoint(Communicator communicator)
    : communicator_(std::make_shared<Communicator>(std::move(communicator))) {
  Communicators& communicators = Communicators::of_process();
  const std::lock_guard lock{communicators.mutex};
  communicators.all.insert(communicator_.get());
}

void Endpoint::end_callbacks() {
  auto& callbacks = PythonCallbacks::of_process();
  if (callbacks.close(longest_callback_at_end)) return;
  {
    Communicators& communicators = Communicators::of_process();
    const std::lock_guard lock{communicators.mutex};
    for (Communicator* const communicator : communicators.all)
      communicator->abort("its program has ended while a callback was waiting");
  }
  callbacks.close(longest_callback_at_end);
}

Communicator& Endpoint::communicator() const {
  return *shared();
}

const std::shared_ptr<Communicator>& Endpoint::shared() const {
  if (!communicator_) throw InvalidArgument("this communicator has been closed: make another one");
  return communicator_;
}

Endpoint& Endpoint::twin(Collective collective, py::handle algorithm) {
  const std::string rule =
      fmt::format("{}:{}", name_of(collective), py::str(algorithm).cast<std::string>());
  if (const auto known = twins_.find(rule); known != twins_.end()) return *known->second;
  const auto with_rule = [rule](Communicator& world) { return world.with_algorithm(rule); };
  auto twin = std::make_unique<Endpoint>(form("the first call with an algorithm", with_rule));
  if (profiler_) twin->attach(profiler_->first, profiler_->second);
  return *twins_.emplace(rule, std::move(twin)).first->second;
}

void Endpoint::attach(const Profiler& profiler, const std::string& tag) {
  communicator().attach(profiler, tag);
  profiler_.emplace(profiler, tag);
  for (auto& [rule, twin] : twins_) twin->attach(profiler, tag);
}

void Endpoint::detach_profiler() {
  communicator().detach_profiler();
  profiler_.reset();
  for (auto& [rule, twin] : twins_) twin->detach_profiler();
}

void Endpoint::close() {
  if (!communicator_) return;
  twins_.clear();
  {
    Communicators& communicators = Communicators::of_process();
    const std::lock_guard lock{communicators.mutex};
    communicators.all.erase(communicator_.get());
  }
  std::shared_ptr<Communicator> held = std::move(communicator_);
  // A callback that the destructor waits for may need the GIL.
  const ReleasedGil others_run;
  const auto last = std::move(held);
  if (!is_left_alone(last, longest_short_call)) end_calls(last);
}

py::object Endpoint::call(const Request& request, std::vector<Array>& arrays, py::object result,
                          bool wait) {
  if (request.stream && in_streams_.emplace(request.type, request.reducer.op()).second)
    return agree(request, arrays, std::move(result), wait);
  if (wait && !handles_signals()) {
    without_gil([&](Communicator& world) { world.run(request); });
    return result;
  }
  if (wait) {
    const std::optional<Work> work =
        without_gil([&](Communicator& world) { return world.run_briefly(request); });
    if (work) wait_interruptibly(*work, arrays);
    return result;
  }
  return started([&](Communicator& world) { return world.start(request); }, std::move(arrays),
                 std::move(result), wait);
}

/// Ranks agree how calls of this kind run in streams, so this one waits for the others.
py::object Endpoint::agree(const Request& request, std::vector<Array>& arrays, py::object result,
                           bool wait) {
  const std::string call = fmt::format("the first {} in a stream", name_of(request.collective));
  if (wait) {
    form(call, [request](Communicator& world) {
      world.run(request);
      return true;
    });
    return result;
  }
  Work work = form(call, [request](Communicator& world) { return world.start(request); });
  return py::cast(pending(std::move(work), std::move(result), std::move(arrays)));
}

py::object Endpoint::exchange(std::vector<Message> messages, std::vector<Array> arrays, Wait wait) {
  const bool waits = wait == Wait::yes;
  if (!wait.stream)
    return started([&](Communicator& world) { return world.start_exchange(messages); },
                   std::move(arrays), py::none(), waits);
  const auto start = [messages = std::move(messages), stream = wait.stream](Communicator& world) {
    return world.streams().on(stream).start_exchange(messages);
  };
  Work work = std::exchange(has_streams_, true) ? without_gil(start)
                                                : form("the first exchange in a stream", start);
  if (waits) return py::none();
  return py::cast(pending(std::move(work), py::none(), std::move(arrays)));
}

py::object Endpoint::transfer(const Message& message, Array& array, Wait wait) {
  if (grouping_) {
    if (wait.stream)
      throw InvalidArgument("the messages of a group are in one stream: pass it to group()");
    group_.push_back(message);
    group_arrays_.push_back(std::move(array));
    return py::none();
  }
  std::vector<Array> arrays;
  arrays.push_back(std::move(array));
  if (wait.stream) return exchange({message}, std::move(arrays), wait);
  Work work = without_gil([&](Communicator& world) { return world.start_transfer(message); });
  if (wait == Wait::no) return py::cast(pending(std::move(work), py::none(), std::move(arrays)));
  wait_interruptibly(work, arrays);
  array = std::move(arrays.front());
  if (message.sends) return py::none();
  return py::cast(work.message());
}

void Endpoint::open_group() {
  if (grouping_) throw InvalidArgument("a group of messages is open already: groups do not nest");
  communicator();
  grouping_ = true;
}

py::object Endpoint::close_group(Wait wait) {
  grouping_ = false;
  auto messages = std::exchange(group_, {});
  auto arrays = std::exchange(group_arrays_, {});
  if (messages.empty()) return py::none();
  return exchange(std::move(messages), std::move(arrays), wait);
}

void Endpoint::drop_group() {
  grouping_ = false;
  group_.clear();
  group_arrays_.clear();
}

}  // namespace capstan::python
