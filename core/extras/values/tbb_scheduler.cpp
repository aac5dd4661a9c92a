// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/tbb_scheduler.hpp"

#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "core/extras/values/ready_list.hpp"

namespace capstan::values {
namespace {

constexpr std::chrono::microseconds idle_nap{50};

/// An arena, and the tasks for it; oneTBB gets a ticket for each.
struct Node {
  int number;
  tbb::task_arena arena;
  detail::SpinLock lock{};
  ReadyList tasks{};

  TaskPromise* take() {
    const std::scoped_lock guard{lock};
    return tasks.pop_front();
  }
};

std::vector<tbb::numa_node_id> nodes_of_machine() {
  return tbb::info::numa_nodes();  // {-1}, any, without libtbbbind
}

thread_local Node* this_node = nullptr;
thread_local const void* this_scheduler = nullptr;

}  // namespace

struct TbbScheduler::Impl {
  std::vector<std::unique_ptr<Node>> nodes;
  std::atomic<unsigned> next{0};
  std::atomic<int> tickets{0};  ///< that oneTBB has
  std::optional<Registration> registration;
};

bool TbbScheduler::is_available() {
  return true;
}

TbbScheduler::TbbScheduler(int threads) : impl_(std::make_unique<Impl>()) {
  const auto nodes = nodes_of_machine();
  const int each = threads > 0 ? std::max(1, threads / static_cast<int>(nodes.size()))
                               : tbb::task_arena::automatic;
  for (const tbb::numa_node_id node : nodes) {
    tbb::task_arena::constraints constraints{node, each};
    // No place is kept for a thread from outside: those only put tasks in.
    impl_->nodes.push_back(std::unique_ptr<Node>(
        new Node{static_cast<int>(impl_->nodes.size()), tbb::task_arena{constraints, 0}}));
  }
  impl_->registration.emplace(*this);
}

TbbScheduler::~TbbScheduler() {
  run_until_idle();
  impl_->registration.reset();
  end([this] { run_until_idle(); });
}

int TbbScheduler::numa_nodes() const {
  return static_cast<int>(impl_->nodes.size());
}

std::optional<int> TbbScheduler::node_of_this_thread() {
  return this_node ? std::optional{this_node->number} : std::nullopt;
}

void TbbScheduler::enqueue(TaskPromise& task, bool woken) {
  const auto preferred = task.preferred_numa_node();
  const bool known = preferred && *preferred >= 0 && *preferred < numa_nodes();
  const auto count = static_cast<unsigned>(impl_->nodes.size());
  Node& node = known ? *impl_->nodes[static_cast<std::size_t>(*preferred)]
                     : *impl_->nodes[impl_->next.fetch_add(1, std::memory_order_relaxed) % count];
  {
    const std::scoped_lock lock{node.lock};
    woken ? node.tasks.push_front(task) : node.tasks.push_back(task);
  }
  impl_->tickets.fetch_add(1, std::memory_order_acq_rel);
  node.arena.enqueue([&node, impl = impl_.get(), this] {
    Node* const outer = std::exchange(this_node, &node);
    const void* const scheduler = std::exchange(this_scheduler, this);
    if (TaskPromise* const next = node.take()) run(*next);
    this_node = outer;
    this_scheduler = scheduler;
    impl->tickets.fetch_sub(1, std::memory_order_acq_rel);
  });
}

void TbbScheduler::wait(BufferBase& buffer) {
  if (this_scheduler != this) return block(buffer);
  while (!buffer.is_ready()) {
    if (TaskPromise* const task = this_node->take())
      run(*task);
    else
      std::this_thread::sleep_for(idle_nap);
  }
}

void TbbScheduler::run_until_idle() {
  while (!is_idle() || operations() > 0) std::this_thread::sleep_for(idle_nap);
}

bool TbbScheduler::is_idle() const {
  return impl_->tickets.load(std::memory_order_acquire) == 0;
}

}  // namespace capstan::values
