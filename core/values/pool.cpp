#include "capstan/values/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "core/values/ready_list.hpp"
#include "topology/machine.hpp"

namespace capstan::values {
namespace {

/// The most tasks that a thread steals from others at a time.
constexpr int batch = 32;
/// The number of times that a thread looks for tasks before it sleeps.
constexpr int looks_before_sleep = 64;
constexpr std::chrono::microseconds nap{50};

/// Tasks that threads of one node may run, and tasks that only they may.
struct alignas(64) Queue {
  mutable detail::SpinLock lock{};
  ReadyList tasks{};

  void put(TaskPromise& task, bool woken) {
    const std::scoped_lock guard{lock};
    woken ? tasks.push_front(task) : tasks.push_back(task);
  }
  ReadyList take(int most) {
    const std::scoped_lock guard{lock};
    return tasks.split_front(most);
  }
  bool empty() const {
    const std::scoped_lock guard{lock};
    return tasks.empty();
  }
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
  // What becomes ready from now on runs here.
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
  (mine ? mine->own : impl_->shared).put(task, woken);
  // A thread that went to sleep counted itself before it looked at this queue, under its lock.
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
    const std::scoped_lock lock{worker.own.lock};
    worker.own.tasks.append(found);
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
  for (int looks = 0; !impl_->stopping.load(std::memory_order_relaxed);) {
    if (TaskPromise* const task = find_task(worker)) {
      run(*task);
      looks = 0;
    } else if (++looks < looks_before_sleep) {
      std::this_thread::yield();
    } else {
      sleep(worker);
      looks = 0;
    }
  }
  Impl::this_worker = nullptr;
}

/// Sleeps until there may be a task.
bool Pool::sleep(Worker& worker) {
  Node& node = *worker.node;
  node.sleepers.fetch_add(1);
  const auto has_task = [&] {
    return !worker.own.empty() || !node.preferring.empty() || !impl_->shared.empty() ||
           std::ranges::any_of(impl_->workers,
                               [](const auto& other) { return !other->own.empty(); });
  };
  const bool found = has_task();
  if (!found && impl_->busy.fetch_sub(1) == 1) {
    const std::scoped_lock lock{impl_->idle_mutex};
    impl_->idle.notify_all();
  }
  std::unique_lock lock{node.mutex};
  if (!found) {
    node.woken.wait(lock, [&] { return node.tickets > 0 || impl_->stopping; });
    impl_->busy.fetch_add(1);
  }
  if (node.tickets > 0) --node.tickets;
  node.sleepers.fetch_sub(1);
  return found;
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
