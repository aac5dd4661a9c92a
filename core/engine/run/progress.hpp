// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/operation.hpp"
#include "core/engine/control/wait_board.hpp"
#include "core/engine/run/biased_mutex.hpp"
#include "core/engine/run/shared_core.hpp"
#include "core/platform/net/own_process.hpp"
#include "topology/cpu_set.hpp"
#include "transports/transport.hpp"

namespace capstan {

class Engine;

/// Moves on the operations of one rank: those of its world and of all groups made from it. Callers
/// move them on while they wait. A progress thread, if there is one, does so while no caller waits.
/// A thread that runs callbacks progresses nothing; another one does, which is started when it is
/// needed. So callbacks may wait for anything, and time limits hold meanwhile.
///
/// All functions are thread-safe. One thread that uses a rank's communicators alone pays next to
/// nothing for it; see BiasedMutex. In a forked child they throw InvalidArgument, and the object
/// is never destroyed: its threads, and what waits for them, do not exist there.
class Progress final : public Driver,
                       public std::enable_shared_from_this<Progress>,
                       private ChangedByFork {
 public:
  struct Options {
    bool oversubscribed = false;  ///< ranks share cores: yield at once
    CpuSet thread_processors{};   ///< of the progress thread; empty: those of its maker
    bool free_core = false;       ///< the progress thread has a core beside those of the ranks
    Rank self{};                  ///< in the world
    ByRank<Process> processes{};  ///< of all ranks of the world
    std::chrono::milliseconds timeout{};
  };

  /// `bell`: the world's transport, on which waiting threads sleep.
  Progress(std::shared_ptr<Transport> bell, Options options);
  ~Progress() override;

  /// A sleep ends after this time at the latest, so that peers are checked. It hides wake-ups that
  /// are missing. Tests therefore make it long, and count the sleeps that nobody has ended.
  inline static std::atomic<std::chrono::milliseconds> longest_sleep{std::chrono::milliseconds{20}};
  inline static std::atomic<std::uint64_t> sleeps_that_ran_out{0};

  Transport& bell() { return *bell_; }
  /// Throws InvalidArgument in a forked child.
  void require_own_process() const override { mutex_.require_own_process(); }
  /// Under the lock: what the ranks of the world wait for.
  WaitBoard& waits() { return waits_; }
  bool has_thread() const { return threaded_.load(std::memory_order_relaxed); }
  /// Whether another thread waits for the lock.
  bool is_awaited() const { return mutex_.is_awaited(); }

  bool drive(const std::function<bool()>& done, Deadline deadline) override;
  bool cancel(Operation& operation) override;
  void advance() override;
  void ensure_progress() override;
  bool ensure_overlap() override;

  void add(Engine& engine);
  /// True: it was the last one, and end_threads() is due.
  [[nodiscard]] bool remove(Engine& engine);
  void end_threads();

  /// Held while engines are used.
  class Lock {
   public:
    explicit Lock(Progress& progress) : mutex_(&progress.mutex_), owner_(mutex_->lock()) {}
    ~Lock() { unlock(); }
    Lock(const Lock&) = delete;

    void unlock() {
      if (mutex_) std::exchange(mutex_, nullptr)->unlock(owner_);
    }

   private:
    BiasedMutex* mutex_;  // null: no longer held
    BiasedMutex::Owner* const owner_;
  };

  /// Without the lock, by a caller that waits for other ranks without an operation: tells them for
  /// whom, from now on, again and again. Kind::none: it waits no more.
  void tell(const Wait& wait);

  /// While such an object exists, this rank tells the others that it forms a group with these ranks
  /// of the world. It may be busy with that for long, and nobody moves its operations on.
  class Forming {
   public:
    Forming(Progress& progress, std::vector<Rank> members);
    ~Forming();
    Forming(const Forming&) = delete;

   private:
    Progress& progress_;
    const std::chrono::steady_clock::time_point began_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::jthread thread_;
  };

  /// Under the lock: completes or fails an operation. announce() runs its callbacks.
  void ended(std::shared_ptr<Operation> operation, std::exception_ptr error,
             const std::optional<MessageInfo>& message);
  /// Without the lock: runs the callbacks of operations that have ended, and forgets these.
  void announce() { announce(nullptr); }
  /// The same without callbacks, because the process exits.
  void announce_silently();
  /// Without the lock: there is something to move on; the thread is woken, if there is one.
  void there_is_work();

  /// Whether threads of the program, other than this one, may be in calls of this rank.
  bool is_used_by_others() { return mutex_.is_used_by_others(); }
  /// exit() destroys an engine of this rank, which others may be using: nothing is freed. When this
  /// has been said of all engines, no thread moves operations on any more. Threads that wait are
  /// held until the process has ended: what they would do next may need static objects that are
  /// gone.
  void leave_at_exit();

  /// True in a forked child.
  bool is_inherited() const { return kept_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  class Backoff;
  class Turn;
  bool poll(Turn* turn);
  bool serve(Turn* turn);
  void serve_caller(Turn* turn);
  bool busy() const;  // under the lock
  int count_busy();   // the same
  bool idle();
  void become_child() noexcept override;
  void await_exit() const;
  void stop_threads();
  bool is_own_thread() const;
  void add_thread();
  void add_thread_beside_callbacks();
  bool needs_leader() const;
  void pass_turn_on();
  /// Looks whether peers live and what has waited for too long. Returns when to look again: with
  /// many operations it takes long, and may take a tenth of the time.
  Clock::time_point check(Turn* turn);
  void progress_world();
  void tell(Clock::time_point now);
  void stop_telling();
  bool sleep(std::chrono::nanoseconds at_most, Turn* turn);
  /// `turn`: of the calling thread, which gives it up while callbacks run; null: it has none.
  void announce(Turn* turn);
  void run_thread();
  bool lead();

  const std::shared_ptr<Transport> bell_;
  const Options options_;

  std::vector<Engine*> engines_;
  WaitBoard waits_;
  Wait forming_;  // of a caller that forms a group, or waits without an operation
  std::atomic<bool> tells_waits_ = false;
  struct Ended {
    std::shared_ptr<Operation> operation;
    std::vector<Operation::Callback> callbacks;
  };
  std::deque<Ended> ended_;  // with callbacks that are still to run
  /// Without callbacks: only to be forgotten, which may destroy what the program has given them.
  std::vector<std::shared_ptr<Operation>> forgotten_;  // keeps its memory
  std::atomic<bool> has_ended_ = false;                // either has any; written under the lock
  std::optional<Ended> next_ended();

  std::atomic<Clock::time_point> check_due_{};        // in serve_caller()
  std::atomic<Clock::time_point> due_after_slice_{};  // of a wait that has ended early
  SharedCore core_;
  std::atomic<std::chrono::nanoseconds> longest_now_{};  // sleep, as far as engines are busy now
  std::atomic<bool> sleeps_at_once_ = false;             // as nothing that is busy wakes a thread

  std::atomic<bool> threaded_ = false;
  BiasedMutex mutex_;
  std::atomic<int> drivers_ = 0;  // callers that wait: the thread leaves the work to them
  std::mutex sleeping_;           // one thread at a time sleeps on the bell
  std::condition_variable work_;  // wakes a progress thread
  std::stop_source stop_;         // of the progress threads
  std::vector<std::jthread> threads_;
  std::atomic<int> threads_running_ = 0;
  int threads_waiting_ = 0;       // for work, under the lock
  bool led_ = false;              // a progress thread has the turn; under the lock
  bool threads_look_ = false;     // threads that wait for work look for it now and then
  std::size_t left_engines_ = 0;  // at exit
  std::atomic<bool> left_at_exit_ = false;
  std::thread::id exiting_thread_;
  std::shared_ptr<Progress> kept_;  // this, in a forked child
};

}  // namespace capstan
