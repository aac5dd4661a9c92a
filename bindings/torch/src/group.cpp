// SPDX-License-Identifier: Apache-2.0

// The parts that all calls of a group share; batches; and the end of the group.

#include "group.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "../../python_callbacks.hpp"
#include "../../released_gil.hpp"
#include "errors.hpp"

namespace capstan::pytorch {

namespace {

/// All groups of the process.
/// At the group's own limit the communicator's error comes first, which says who kept it waiting.
constexpr std::chrono::milliseconds patience{1500};

struct Groups {
  std::mutex mutex;
  std::set<Group*> all;

  static Groups& of_process() {
    static auto& groups = *new Groups;  // the last groups go when exit() has begun
    return groups;
  }
};

void destroy(Communicator* communicator) {
  without_gil([&] { delete communicator; });
}

}  // namespace

Settings settings_of(std::chrono::milliseconds timeout) {
  Settings settings = Settings::from_environment();
  settings.timeout = settings.join_timeout = timeout;
  return settings;
}

std::shared_ptr<Communicator> owned(Communicator communicator) {
  return {new Communicator(std::move(communicator)), &destroy};
}

Group::Group(std::shared_ptr<Communicator> communicator, std::chrono::milliseconds timeout)
    : Group(communicator, communicator->rank(), communicator->size(), timeout) {}

Group::Group(int rank, int size, std::chrono::milliseconds timeout)
    : Group(nullptr, rank, size, timeout) {}

Group::Group(std::shared_ptr<Communicator> communicator, int rank, int size,
             std::chrono::milliseconds timeout)
    : Base(rank, size),
      communicator_(std::move(communicator)),
      longest_(timeout),
      timeout_(timeout),
      reconfigures_(!communicator_) {
  Groups& groups = Groups::of_process();
  const std::lock_guard lock(groups.mutex);
  groups.all.insert(this);
}

Group::~Group() {
  discard_meetings();
  Groups& groups = Groups::of_process();
  const std::lock_guard lock(groups.mutex);
  groups.all.erase(this);
}

void Group::discard_meetings() {
  for (const UniqueId& meeting : meetings_) discard(meeting);
  meetings_.clear();
}

void Group::end_callbacks() {
  auto& callbacks = PythonCallbacks::of_process();
  if (callbacks.close(longest_callback_at_end)) return;
  {
    Groups& groups = Groups::of_process();
    const std::lock_guard lock(groups.mutex);
    for (Group* const group : groups.all)
      group->abort_for("its program has ended while a callback of a future was waiting");
  }
  callbacks.close(longest_callback_at_end);
}

void Group::abort_for(const std::string& reason) {
  if (const auto last = [this] {
        const std::lock_guard lock(mutex_);
        return communicator_;
      }())
    last->abort(reason);
}

std::shared_ptr<Communicator> Group::communicator() {
  const std::lock_guard lock(mutex_);
  if (!communicator_)
    refuse(reconfigures_ ? "this process group has no members: call reconfigure() on all of them"
                         : "this process group has been shut down: make a new one");
  return communicator_;
}

HandlePtr Group::handle(c10d::OpType type, const char* title, std::chrono::milliseconds limit) {
  if (batch_) return batch_;
  const auto sequence = c10d::isP2POp(type) ? sequence_.load() : ++sequence_;
  auto own = limit_of(limit, timeout_);
  if (own >= longest_ && own < own.max() - patience) own += patience;
  return c10::make_intrusive<Handle>(rank_, type, title, sequence, own);
}

void Group::start(Handle& handle, const Request& request) {
  translating([&] { handle.add(communicator()->start(request)); });
}

WorkPtr Group::launched(const HandlePtr& handle) {
  if (handle != batch_) Handle::launch(handle);
  return handle;
}

void Group::check_size(std::size_t tensors, const char* call) const {
  if (tensors != static_cast<std::size_t>(size_))
    refuse(fmt::format("{} takes a list of one tensor per rank: {}, not {}", call, size_, tensors));
}

#if TORCH_VERSION_MAJOR >= 2
void Group::startCoalescing() {
  if (batch_) refuse("a batch of operations is open already: end it first");
  batch_ = handle(c10d::OpType::COALESCED, "capstan:batch", c10d::kUnsetTimeout);
}

WorkPtr Group::endCoalescing() {
  if (!batch_) refuse("no batch of operations is open");
  const HandlePtr batch = std::exchange(batch_, nullptr);
  const auto messages = std::exchange(batch_messages_, {});
  if (!messages.empty()) translating([&] { batch->add(communicator()->start_exchange(messages)); });
  return launched(batch);
}
#endif

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
void Group::setTimeout(std::chrono::milliseconds timeout) {
  timeout = saturated(timeout);
  if (timeout > longest_)
    refuse(
        fmt::format("the time-out of a group of the backend capstan can be shortened, but not "
                    "beyond the {} s that the group was made with: pass timeout= there",
                    longest_.count() / 1000.0));
  if (timeout <= kNoTimeout)
    refuse(fmt::format("a group's time-out of {} s is no duration: pass one above 0",
                       timeout.count() / 1000.0));
  timeout_ = timeout;
}

void Group::shutdown() {
  std::shared_ptr<Communicator> last;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  last.swap(communicator_);
}

void Group::abort() {
  abort_for(fmt::format("the program has called abort() on rank {}", rank_));
}
#endif

}  // namespace capstan::pytorch
