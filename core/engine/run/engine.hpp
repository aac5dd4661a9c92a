// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/settings.hpp"
#include "core/engine/control/rank_names.hpp"
#include "core/engine/executor/host_executor.hpp"
#include "core/engine/messages/messages.hpp"
#include "core/engine/run/agreement.hpp"
#include "core/engine/run/call_observer.hpp"
#include "core/engine/run/diagnosis.hpp"
#include "core/engine/run/losses.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/engine/run/plan_cache.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/run/recurring_buffers.hpp"
#include "core/engine/run/state_report.hpp"
#include "core/engine/run/survivors.hpp"
#include "core/engine/run/task.hpp"
#include "core/engine/run/task_queue.hpp"
#include "core/engine/run/watchdog.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// The rules of a communicator. Algorithms that the program has added are proven for its ranks
/// before they first run: throws AlgorithmRefused.
AlgorithmRules rules_of(const Settings& settings, const Hosts& hosts);
/// By what calls of a communicator are chosen, in memory of the host or, if `devices` are named, in
/// that of devices with such links. Throws as rules_of() does.
SelectionContext selection_of(const MachineView& machine, const Settings& settings,
                              std::optional<DeviceLink> devices = {});
/// How plans of a communicator with these settings are proven.
ProofPolicy proofs_of(const Settings& settings);

class MessagesOperation;

/// One rank's running half of a communicator: runs tasks one after another, and turns the failure
/// of any rank into the same error on all of them.
///
/// A blocking call that finds the queue empty runs at once, on the stack of its caller, and never
/// becomes a task unless it has to wait for a peer for long. Everything else goes through the
/// queue.
///
/// Functions that poll, serve, check, detach and share the core are called by Progress, which holds
/// its lock meanwhile; all others by the program's threads.
class Engine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Objects that a rank's world and all groups made from it share.
  struct Shared {
    std::shared_ptr<Progress> progress;  ///< sleeps on the world's transport
    std::shared_ptr<shared::SharedMemory> memory;
  };

  /// `transport` is connected. `world_ranks` holds the rank in the world of each rank here.
  Engine(Shared rank, std::shared_ptr<Transport> transport, ByRank<int> world_ranks, Rank self,
         const SegmentLayout& layout, const MachineView& machine, const Settings& settings);
  Engine(const Engine&) = delete;
  /// Fails what is pending with Aborted. Operations that were cancelled end first, for the peers,
  /// which may take two seconds without an answer at most.
  ~Engine();
  /// Says that this rank has left, as the destructor does, and leaves all else as it is: exit()
  /// destroys the communicator, and other threads may be in its calls.
  void leave_at_exit();

  int rank() const { return self_.value(); }
  int size() const { return ranks_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  Shared shared() const { return {progress_, memory_}; }
  const ByRank<int>& world_ranks() const { return world_ranks_; }
  const MachineView& machine() const { return machine_; }
  const Settings& settings() const { return settings_; }
  /// Maps memory that short calls use, which else the first of them would do: 70 pages, 0.2 ms. For
  /// worlds, not for groups, of which there may be many.
  void prepare_first_calls() {
    if (ranks_ > 1) executor_.prepare_first_calls();
  }
  /// Decides by other rules from the next call on; see PlanCache::use_rules(). Nothing is pending.
  void use_rules(AlgorithmRules rules);
  /// Runs a call to its end: at once if the queue is empty, else in turn. Throws the call's error.
  void run(const Call& call, const void* input, void* output);
  /// Gives the task of a call that has not ended after a brief poll an operation, by which it goes
  /// on. Null: such a call is waited for.
  using GoesOn = std::function<void(Task&)>;
  /// The same under the lock of progress(), which is given up where the call has to wait. Remembers
  /// the request that the call was made from, if the call may be repeated. False: nothing was done,
  /// as ranks have to agree before the call, which would wait even if the call `goes_on`.
  bool run(Progress::Lock& lock, const Call& call, const void* input, void* output,
           const Request* request, const GoesOn* goes_on = nullptr);
  /// Runs a request that has been remembered, or else calls `run_new` and returns its result. One
  /// lock is held from the look-up to the end of a call that need not wait.
  using RunNew = bool (*)(Engine&, Progress::Lock&, const Request&, const GoesOn* goes_on);
  bool run(const Request& request, RunNew run_new, const GoesOn* goes_on = nullptr);
  /// Puts a task into the queue and waits for its end. Throws the call's error.
  void run_queued(Task task);
  /// Puts a task into the queue. It moves on whenever Progress polls. Remembers the request that
  /// the task was made from, for start(); null: that cannot be repeated.
  void enqueue(Task task, const Request* request = nullptr);
  /// Makes the operation of a call with this plan, and this output.
  using MakeCall = std::function<std::shared_ptr<Operation>(const Plan&, void* output)>;
  /// Starts a request that has been remembered. False: it was not.
  bool start(const Request& request, const MakeCall& make);

  /// From now on this executor runs the tasks, which put() brings: the communicator makes no other
  /// calls. Null: that has an end, and so have tasks that are pending.
  void run_by(std::unique_ptr<Executor> executor);
  /// Puts a task into the queue that has its plan, and needs no agreement before it.
  void put(Task task);
  /// Whether the queue is empty. Any thread.
  bool is_idle();
  /// For executors.
  Peers& peers() { return peers_; }

  /// Starts the messages of an operation, whose transfers have been filled in.
  void start(MessagesOperation& operation);
  /// The end of a message that has needed no operation.
  struct MessageEnd {
    bool done = false;
    std::exception_ptr error{};
    MessageInfo info{};
  };
  enum class Until : std::uint8_t { started, polled };
  using MakeOperation = std::function<std::shared_ptr<MessagesOperation>()>;
  /// Starts one message, which lies on the stack; where its caller will wait for it, polls for as
  /// long as a short call does. Null: it has ended. Otherwise `make` has made the operation by
  /// which it continues, and into which it has been moved.
  std::shared_ptr<MessagesOperation> start(Messages::MessageTransfer& transfer,
                                           const MakeOperation& make, MessageEnd& end, Until until);
  /// Runs one message to its end. Throws the message's error.
  MessageInfo run(Messages::MessageTransfer& transfer, const MakeOperation& make);
  /// See Messages. Needs no lock.
  bool may_stay_on_device(const Messages::MessageTransfer& transfer) const {
    return messages_.may_stay_on_device(transfer);
  }
  /// Looks for a message, or waits for one. Throws PeerLost when the source is gone. The wait calls
  /// `between` every 20 ms, without a lock: what that throws ends it.
  std::optional<MessageInfo> probe(int source, int tag);
  MessageInfo wait_for_message(int source, int tag, const std::function<void()>& between);

  /// The choice by which a call runs or, while candidates are measured, is expected to run in the
  /// end. Takes the buffers of all ranks to be mapped like these.
  Choice choice(const Call& call, const void* input, const void* output);
  /// See PlanCache::refusal().
  std::string refusal(const Call& call, const Choice& choice);
  /// See PlanCache::autotuned().
  std::vector<MeasuredCell> autotuned();
  /// See PlanCache::message_choice().
  Choice message_choice(Rank peer, Bytes bytes);
  /// Whether a first decision about calls like this one has been made, or needs no measurement;
  /// with buffers like these on all ranks.
  bool is_settled(const Call& call, const void* input, const void* output);

  /// From now on buffers may be in shared memory. All ranks call this between the same collectives.
  void expect_shared_buffers();
  bool expects_shared_buffers() const { return shared_buffers_.load(std::memory_order_relaxed); }

  /// Tells `observer` of each call of the program that ends from now on. Null: no longer.
  void observe(std::shared_ptr<CallObserver> observer);

  /// Fails the communicator on all ranks, unless it has failed already. Any thread.
  void abort(const std::string& reason);
  /// The same because of an error of this rank, which is told to the others as it is.
  void abort(const std::exception& error);
  /// From now on the failure of either engine of this rank, as far as this rank sees it, is that of
  /// both.
  void share_failures(Engine& other);
  /// For agreements of those that are left, whether the communicator has failed or not.
  Survivors& survivors();
  /// The failure of this rank or, as far as this rank sees it, of a peer. Any thread; waits for
  /// nothing but, with ranks on other hosts, the lock.
  std::optional<Failure> failure();
  /// Whether this rank has failed, or adopted a failure. Any thread; one load.
  bool has_failed() { return peers_.own_control().abort.kind.load(std::memory_order_acquire) != 0; }

  /// Moves tasks and messages on as far as arrivals allow; true if anything moved.
  bool poll();
  /// Receives what has arrived, though nothing here waits for it: peers may need that to continue.
  /// True if a message, or a part of one, was received or sent.
  bool serve();
  /// There is something to move on.
  bool busy() const { return !tasks_.empty() || !messages_.idle() || needs_peers(); }
  /// How long to sleep at most while it is busy: what runs tasks elsewhere wakes nobody.
  std::chrono::nanoseconds longest_sleep() const;
  bool sleeps_at_once() const { return other_ != nullptr; }
  /// Checks peers and the time, and fails what is pending if need be. Called now and then while
  /// nothing moves.
  void check(Time now);
  /// The merged waits of this rank's operations, without those that have just begun.
  Wait wait(Time now) const;
  /// The same, or what this rank waits for in another communicator.
  Wait wait_anywhere(Time now) const;
  /// A report of what this rank knows of the communicator now. Thread-safe.
  StateReport state_report();
  /// Detaches the task of an operation from its buffers; false if it is not here (any more).
  bool detach(const Operation& operation);
  /// Sets how often poll() looks for data that have not arrived: once if others wait for the core.
  void share_core(bool shared) { executor_.set_spins(shared ? 1 : spins_); }

 private:
  using Tasks = TaskQueue;

  // Plans.
  PlanContext plan_context(const SegmentLayout& layout) const;
  PlanCache::Hooks plan_hooks();
  /// Whether the plan of the next call can be known: no call before it waits for an agreement. All
  /// ranks decide in the order of the calls.
  bool next_plan_is_known() const { return tasks_.empty() || tasks_.back().plan; }
  const CachedPlan* plan_at_end(const Call& call);
  const CachedPlan* next_plan(const Call& call, Tasks::const_iterator place);
  const CachedPlan* plan_again(const CachedPlan& plan);

  // Agreements before a call.
  Call with_visibility(Call call, const void* input, const void* output);
  PeerMappedBuffers peer_mapped(const Call& call, const void* input, const void* output) const;
  Task agree_on_visibility(const Call& agreement, Task& task);
  Task agree_on_times(TunedCalls& calls, const Call& call);
  Task meet_before(TunedCalls& calls, const Call& call);

  // Running.
  void run_call(Progress::Lock& lock, const Call& call, const void* input, void* output,
                const Request* request, const GoesOn* goes_on);
  bool run_unqueued(const CachedPlan& plan, const void* input, void* output);
  [[gnu::noinline]] void push(Progress::Lock& lock, const Call& call, const CachedPlan* plan,
                              const void* input, void* output, const GoesOn* goes_on);
  void wait_for(const Outcome& outcome);
  Executor& executor() { return other_ ? *other_ : executor_; }
  const Executor& executor() const {
    return other_ ? *other_ : static_cast<const Executor&>(executor_);
  }
  void send_small_calls();
  bool run_tasks();
  bool begin_first();
  void end_first();
  inline void before_call(const CachedPlan& plan, const void* input, void* output);
  void begin_timed_call(bool measured);
  inline void after_call(const CachedPlan& plan);
  void note_end(const CachedPlan& plan, bool failed);
  void report_end(Task& task, const std::exception_ptr& error);
  bool detach(Task& task, bool started);
  void begin_messages();
  void begin_unowned(Messages::MessageTransfer& transfer);
  void poll_for_message(const bool& done);
  std::shared_ptr<MessagesOperation> go_on(Messages::MessageTransfer& transfer,
                                           const MakeOperation& make);
  void watch_over(MessagesOperation& operation);
  void message_ended(MessagesOperation& operation, std::exception_ptr error,
                     const MessageInfo& info);
  bool detach_messages(const Operation& operation);
  /// Makes arrivals from other hosts visible.
  void receive_from_hosts() {
    if (!peers_.posted().empty()) transport_->progress();
  }

  // The end.
  void watch_for_exit();
  bool all_are_cancelled() const;
  void end_cancelled();

  // Failure.
  class Judge;
  void check_peers();
  void check_tasks(Time now);
  void warn_of_long_wait(Time now);
  bool needs_peers() const { return other_ && !failure_ && other_->needs_peers(); }
  void check_departures(const Executor::Report& report, Wait own, Time now);
  std::vector<Rank> dead_peers();
  bool watch_others();
  class ToldProbe;
  void adopt_failures();
  std::exception_ptr check_probe(const Messages::MessageTransfer& wanted, Time now, Time began);
  std::optional<MessageInfo> look_for_message(int source, int tag);
  Rank world_rank(Rank rank) const { return Rank{world_ranks_[rank]}; }
  /// Since when the first call has made no progress; zero if it has, or does not run.
  Time::duration stalled_for(Time now) const;
  Wait collective_wait(const Executor::Report& report, Time now) const;
  Wait message_wait(const Messages::MessageTransfer& transfer, int peer,
                    Time::duration waited) const;
  RankView view_of(Rank world_rank, Time now) const;
  Diagnosis diagnose(Wait own, Time now);
  std::exception_ptr error_of(const Diagnosis& diagnosis, const std::string& what,
                              Rank directly) const;
  StateReport::Member member_report(Rank rank, Time now);
  void add_pending(StateReport& report, Time now) const;
  bool is_late(Time::duration waited) const { return waited > settings_.timeout; }
  bool may_wait_longer(const Diagnosis& diagnosis, Time::duration waited) const;
  void note_failure(const Error& error);
  Failure current_failure() const;
  void abort(const Failure& failure);
  void fail(const Failure& failure);
  void push_out_failure();
  void complete(Failure& failure) const;
  void fail_all(const std::exception_ptr& error);

  const std::shared_ptr<Progress> progress_;
  const std::shared_ptr<shared::SharedMemory> memory_;
  const std::shared_ptr<Transport> transport_;
  const ByRank<int> world_ranks_;
  const Rank self_;
  const int ranks_;
  const MachineView machine_;
  const Settings settings_;
  const int spins_;
  const RankNames names_;
  Peers peers_;
  HostExecutor executor_;
  std::unique_ptr<Executor> other_;       // runs the tasks; null: executor_ does
  std::unique_ptr<Survivors> survivors_;  // from the first use on
  std::vector<Engine*> fail_together_;    // that share failures
  RecurringBuffers recurring_;
  Watchdog watchdog_;
  Messages messages_;

  // Touched by every call, and therefore next to each other.
  std::optional<Failure> failure_;
  Tasks tasks_;           // the first one runs
  bool running_ = false;  // it has begun
  int calls_since_check_ = 0;
  PlanCache plans_;
  bool watches_exit_ = false;

  std::size_t exchanges_ = 0;  // operations with messages that have not ended

  std::uint64_t seen_progress_ = 0;
  Time stalled_since_{};
  bool has_warned_ = false;       // of the wait that lasts
  Losses losses_, lost_senders_;  // of the first call, and of messages
  Time next_probe_check_{};
  struct Probe {
    Messages::MessageTransfer wanted;
    Time since;
  };
  std::list<Probe> probes_;  // of callers that wait for a message

  Autotuner::Time call_began_ = 0;  // of a timed call
  /// The begin of a call for its observer: before the look-up of its plan, and before its buffers
  /// move into huge pages. `entered_`: the same of a call that is to begin at once; 0: none.
  Autotuner::Time observed_from_ = 0, entered_ = 0;
  std::shared_ptr<CallObserver> observer_;
  std::atomic<bool> shared_buffers_ = false;
};

/// Agreements by collectives of a communicator.
class CollectiveExchange final : public Exchange {
 public:
  explicit CollectiveExchange(Engine& engine) : engine_(engine) {}

  int ranks() const override { return engine_.size(); }
  void run(const Agreement& agreement, const void* answer, void* result) override {
    engine_.run(agreement.call(), answer, result);
  }

 private:
  Engine& engine_;
};

}  // namespace capstan
