// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "capstan/export.hpp"
#include "capstan/values/scheduler.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// Runs tasks on the threads of oneTBB, in an arena for each NUMA node, so that they share these
/// with what else of the program uses oneTBB. A task with a preferred node runs in the arena of
/// that node, whose threads oneTBB binds where it has libtbbbind; others go to the arenas in turns.
class TbbScheduler final : public Scheduler {
 public:
  /// Whether Capstan was built with oneTBB. If not, the constructor throws InvalidArgument.
  static bool is_available();

  TbbScheduler() : TbbScheduler(0) {}
  /// Threads in all, but one for each node at least; 0: as many as oneTBB uses.
  explicit TbbScheduler(int threads);
  ~TbbScheduler() override;

  int numa_nodes() const;
  /// The index of the arena in which this thread runs a task, if it does.
  static std::optional<int> node_of_this_thread();

  /// A thread that runs tasks of this scheduler runs others meanwhile, any other one sleeps.
  void wait(BufferBase& buffer) override;

 protected:
  void enqueue(TaskPromise& task, bool woken) override;
  void run_until_idle() override;
  bool is_idle() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
