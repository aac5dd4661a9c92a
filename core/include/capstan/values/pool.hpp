// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "capstan/export.hpp"
#include "capstan/values/scheduler.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// Threads that run tasks, each from a queue of its own; a thread without work steals from others.
/// Threads are spread over the machine's NUMA nodes and bound to the one that they are on. A task
/// with a preferred node runs on the threads of that node only, if there are any; others run
/// anywhere.
class Pool final : public Scheduler {
 public:
  struct Options {
    int workers = 0;     ///< 0: one for each core that this process may use
    int numa_nodes = 0;  ///< 0: those of the machine. Others than the machine's are for tests: then
                         ///< threads are grouped, but not bound
  };

  Pool() : Pool(Options{}) {}
  explicit Pool(const Options& options);
  ~Pool() override;

  int workers() const;
  int numa_nodes() const;
  /// The NUMA node of this thread, if it is one of a pool's.
  static std::optional<int> node_of_this_thread();

  /// A thread of this pool runs tasks meanwhile, any other one sleeps.
  void wait(BufferBase& buffer) override;

 protected:
  void enqueue(TaskPromise& task, bool woken) override;
  void run_until_idle() override;
  bool is_idle() const override;

 private:
  struct Worker;
  struct Node;
  struct Impl;

  void work(Worker& worker);
  TaskPromise* find_task(Worker& worker);
  void call_for(int backlog);
  bool has_task(const Worker& worker) const;
  void sleep(Worker& worker);
  void wait_for_task(Worker& worker);
  void wake_one(Node& node);

  std::unique_ptr<Impl> impl_;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
