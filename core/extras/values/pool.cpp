// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "core/extras/values/ready_list.hpp"
#include "topology/machine.hpp"

namespace capstan::values {
namespace {

/// The most tasks that a thread steals from others at a time.
constexpr int batch = 32;
// measured: docs/lab-notebook.md#many-small-tasks
/// The number of times that a thread looks for tasks before it sleeps.
constexpr int looks_before_sleep = 16;
/// The time between two looks of a thread that waits for a value, and of the watcher at first.
constexpr std::chrono::microseconds nap{50}, longest_nap{400};
/// With so many tasks in one queue another thread is woken at once.
constexpr int backlog_to_wake = 64;

/// Tasks that are ready.
class alignas(64) Queue {
 public:
  /// These two return the number of tasks that wait now.
  int put(TaskPromise& task, bool woken) {
    const std::scoped_lock guard{lock_};
    woken ? tasks_.push_front(task) : tasks_.push_back(task);
    return note_count();
  }
  int append(const ReadyList& more) {
    const std::scoped_lock guard{lock_};
    tasks_.append(more);
    return note_count();
  }
  /// May miss what another thread puts meanwhile.
  ReadyList take(int most) {
    if (count_.load(std::memory_order_relaxed) == 0) return {};
    const std::scoped_lock guard{lock_};
    ReadyList taken = tasks_.split_front(most);
    note_count();
    return taken;
  }
  bool empty() const {
    const std::scoped_lock guard{lock_};
    return tasks_.empty();
  }

 private:
  int note_count() {
    count_.store(tasks_.count, std::memory_order_relaxed);
    return tasks_.count;
  }

  mutable detail::SpinLock lock_;
  ReadyList tasks_;
  std::atomic<int> count_{0};
};

/// The usable cores of each NUMA node that has some.
std::vector<CpuSet> cores_of_nodes(const Machine& machine) {
  std::vector<CpuSet> nodes;
  for (const Core& core : machine.cores()) {
    const auto node = static_cast<std::size_t>(core.numa_node);
    if (nodes.size() <= node) nodes.resize(node + 1);
    nodes[node] = nodes[node] | core.processing_units;
  }
  std::erase_if(nodes, [](const CpuSet& cores) { return cores.empty(); });
  return nodes;
}

}  // namespace

struct Pool::Worker {
  Queue own;
  Node* node = nullptr;
  Pool* pool = nullptr;
  std::size_t index = 0;
  std::thread thread;
};

struct Pool::Node {
  int number = 0;
  CpuSet cores;      ///< empty: threads are not bound
  Queue preferring;  ///< tasks that run here only
  std::mutex mutex;
  std::condition_variable woken;
  int tickets = 0;
  std::atomic<int> sleepers{0};
};

struct Pool::Impl {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Worker>> workers;
  Queue shared;  ///< from threads outside
  std::atomic<int> busy{0};
  std::atomic<int> watchers{0};  ///< sleepers that look at the queues from time to time
  std::atomic<bool> stopping{false};
  std::mutex idle_mutex;
  std::condition_variable idle;
  std::optional<Registration> registration;

  [[gnu::visibility("hidden")]] static thread_local Worker* this_worker;
};

thread_local Pool::Worker* Pool::Impl::this_worker = nullptr;

Pool::Pool(const Options& options) : impl_(std::make_unique<Impl>()) {
  if (options.workers < 0 || options.numa_nodes < 0)
    throw InvalidArgument(
        fmt::format("a pool of {} workers on {} NUMA nodes: give numbers from 1 on, "
                    "or 0 for the machine's",
                    options.workers, options.numa_nodes));
  const Machine machine = Machine::discover();
  const auto of_machine = cores_of_nodes(machine);
  const int workers = options.workers ? options.workers : static_cast<int>(machine.cores().size());
  const std::size_t wanted =
      options.numa_nodes ? static_cast<std::size_t>(options.numa_nodes) : of_machine.size();
  const std::size_t nodes = std::min(wanted, static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < nodes; ++i) {
    auto& node = impl_->nodes.emplace_back(std::make_unique<Node>());
    node->number = static_cast<int>(i);
    if (nodes == of_machine.size() && nodes > 1) node->cores = of_machine[i];
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers); ++i) {
    auto& worker = impl_->workers.emplace_back(std::make_unique<Worker>());
    worker->node = impl_->nodes[i % nodes].get();
    worker->pool = this;
    worker->index = i;
  }
  impl_->busy = workers;
  for (auto& worker : impl_->workers)
    worker->thread = std::thread([this, &worker] { work(*worker); });
  impl_->registration.emplace(*this);
}

Pool::~Pool() {
  run_until_idle();
  impl_->registration.reset();
  impl_->stopping = true;
  for (auto& node : impl_->nodes) {
    const std::scoped_lock lock{node->mutex};
    node->woken.notify_all();
  }
  for (auto& worker : impl_->workers) worker->thread.join();
  // Tasks that become ready from now on run here.
  Worker last;
  last.pool = this;
  last.node = impl_->nodes[0].get();
  Worker* const outer = std::exchange(Impl::this_worker, &last);
  end([&] {
    while (TaskPromise* const task = find_task(last)) run(*task);
  });
  Impl::this_worker = outer;
}

int Pool::workers() const {
  return static_cast<int>(impl_->workers.size());
}

int Pool::numa_nodes() const {
  return static_cast<int>(impl_->nodes.size());
}

std::optional<int> Pool::node_of_this_thread() {
  return Impl::this_worker ? std::optional{Impl::this_worker->node->number} : std::nullopt;
}

void Pool::enqueue(TaskPromise& task, bool woken) {
  Worker* const mine =
      Impl::this_worker && Impl::this_worker->pool == this ? Impl::this_worker : nullptr;
  const auto preferred = task.preferred_numa_node();
  if (preferred && *preferred >= 0 && *preferred < numa_nodes()) {
    Node& node = *impl_->nodes[static_cast<std::size_t>(*preferred)];
    node.preferring.put(task, woken);
    return wake_one(node);
  }
  const int backlog = (mine ? mine->own : impl_->shared).put(task, woken);
  call_for(backlog);
}

/// Wakes a thread for a task that was put into a queue, if nobody else may see to it in time: one
/// that is awake comes to the task when its own is done, and a watcher in case that this takes
/// long. Whoever stops being busy or a watcher says so first, and then looks at all queues, under
/// their locks: so the task is seen there, or the change here.
void Pool::call_for(int backlog) {
  const bool is_seen_to = impl_->busy.load() > 0 && impl_->watchers.load() > 0;
  if (is_seen_to && backlog < backlog_to_wake) return;
  for (auto& node : impl_->nodes)
    if (node->sleepers.load(std::memory_order_relaxed) > 0) return wake_one(*node);
}

void Pool::wake_one(Node& node) {
  if (node.sleepers.load(std::memory_order_relaxed) == 0) return;
  const std::scoped_lock lock{node.mutex};
  const int sleepers = node.sleepers.load(std::memory_order_relaxed);
  if (node.tickets >= sleepers) return;
  ++node.tickets;
  node.woken.notify_one();
}

TaskPromise* Pool::find_task(Worker& worker) {
  const auto first_of = [&](ReadyList found) -> TaskPromise* {
    TaskPromise* const task = found.pop_front();
    if (found.empty()) return task;
    call_for(worker.own.append(found));
    return task;
  };
  if (auto* const task = worker.own.take(1).pop_front()) return task;
  if (auto* const task = worker.node->preferring.take(1).pop_front()) return task;
  if (auto* const task = first_of(impl_->shared.take(batch))) return task;
  for (std::size_t i = 1; i <= impl_->workers.size(); ++i) {
    Worker& victim = *impl_->workers[(worker.index + i) % impl_->workers.size()];
    if (&victim == &worker) continue;
    if (auto* const task = first_of(victim.own.take(batch))) return task;
  }
  return nullptr;
}

void Pool::work(Worker& worker) {
  Impl::this_worker = &worker;
  if (!worker.node->cores.empty()) bind_this_thread(worker.node->cores);
  bool slept = false;
  for (int looks = 0; !impl_->stopping.load(std::memory_order_relaxed);) {
    if (TaskPromise* const task = find_task(worker)) {
      // It may have been woken for another task than the one that it found.
      if (std::exchange(slept, false) && has_task(worker)) call_for(0);
      run(*task);
      looks = 0;
    } else if (++looks < looks_before_sleep) {
      std::this_thread::yield();
    } else {
      sleep(worker);
      slept = true;
      looks = 0;
    }
  }
  Impl::this_worker = nullptr;
}

bool Pool::has_task(const Worker& worker) const {
  return !worker.own.empty() || !worker.node->preferring.empty() || !impl_->shared.empty() ||
         std::ranges::any_of(impl_->workers, [](const auto& other) { return !other->own.empty(); });
}

/// Sleeps until there may be a task.
void Pool::sleep(Worker& worker) {
  Node& node = *worker.node;
  node.sleepers.fetch_add(1);
  const bool last = impl_->busy.fetch_sub(1) == 1;
  if (!has_task(worker)) {
    if (last) {
      const std::scoped_lock lock{impl_->idle_mutex};
      impl_->idle.notify_all();
    }
    wait_for_task(worker);
  }
  impl_->busy.fetch_add(1);
  const std::scoped_lock lock{node.mutex};
  if (node.tickets > 0) --node.tickets;
  node.sleepers.fetch_sub(1);
}

/// While others are busy one sleeper watches the queues, as the others may be in long tasks.
void Pool::wait_for_task(Worker& worker) {
  Node& node = *worker.node;
  const auto called = [&] { return node.tickets > 0 || impl_->stopping; };
  std::unique_lock lock{node.mutex};
  for (auto pause = nap; !called(); pause = std::min(2 * pause, longest_nap)) {
    if (impl_->busy.load() == 0 || impl_->watchers.load() > 0) return node.woken.wait(lock, called);
    impl_->watchers.fetch_add(1);
    node.woken.wait_for(lock, pause, called);
    impl_->watchers.fetch_sub(1);
    if (has_task(worker)) return;
  }
}

void Pool::wait(BufferBase& buffer) {
  Worker* const mine = Impl::this_worker;
  if (!mine || mine->pool != this) return block(buffer);
  while (!buffer.is_ready()) {
    if (TaskPromise* const task = find_task(*mine))
      run(*task);
    else
      std::this_thread::sleep_for(nap);
  }
}

void Pool::run_until_idle() {
  std::unique_lock lock{impl_->idle_mutex};
  while (!is_idle() || operations() > 0) impl_->idle.wait_for(lock, std::chrono::milliseconds{1});
}

/// A thread counts as busy from before it is woken, as the ticket is given under the lock of the
/// queue's node, until it has found all queues empty.
bool Pool::is_idle() const {
  if (impl_->busy.load() > 0) return false;
  for (const auto& node : impl_->nodes) {
    const std::scoped_lock lock{node->mutex};
    if (node->tickets > 0 || !node->preferring.empty()) return false;
  }
  if (!impl_->shared.empty()) return false;
  for (const auto& worker : impl_->workers)
    if (!worker->own.empty()) return false;
  return impl_->busy.load() == 0;
}

}  // namespace capstan::values
