#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "capstan/settings.hpp"
#include "core/engine/executor/host_executor.hpp"
#include "core/engine/recurring_buffers.hpp"
#include "core/engine/task.hpp"
#include "core/engine/watchdog.hpp"
#include "core/p2p/messages.hpp"
#include "core/selection/autotuner.hpp"
#include "core/selection/selector.hpp"
#include "topology/cpu_set.hpp"
#include "transports/transport.hpp"

namespace capstan {

class Progress;

/// What the ranks of a world have found out about the machine they share; equal on all of them,
/// but for the last three.
struct Placement {
  bool threads = false;            ///< ranks are threads of one process
  Hosts hosts{1};                  ///< of the ranks
  Network network = Network::tcp;  ///< between hosts
  bool shares_cores = false;       ///< some ranks of some host share a core
  Bytes chunk{256 << 10};          ///< staged bytes per rank and block that stay in its cache
  bool reads_peers = false;        ///< every rank can read every other's memory
  bool huge_pages = false;         ///< every rank may put its buffers into huge pages, and can
  bool autotunes = false;  ///< every rank wants calls to be timed and the fastest candidate chosen
  Bytes cached_buffers{8 << 20};  ///< input and output of a rank that the last cache has room for
  bool oversubscribed = false;    ///< some on this host do: give it up early while waiting
  CpuSet spare_processors{};  ///< a core that no rank is bound to, for this rank's progress thread
  int position = 0;           ///< of this rank among those on its host
};

/// One rank's running half of a communicator: keeps plans, runs tasks one after the other, and
/// turns the failure of any rank into the same error on all of them.
///
/// All but run() and submit() are called by Progress, which holds its lock meanwhile.
class Engine {
 public:
  /// What a rank has one of, for its world and all groups made from that.
  struct Shared {
    std::shared_ptr<Progress> progress;  ///< sleeps on the world's transport
    std::shared_ptr<shared::SharedMemory> memory;
  };

  /// `transport` is connected. `world_ranks[r]` is the rank in the world of rank r here.
  Engine(Shared rank, std::shared_ptr<Transport> transport, std::vector<int> world_ranks, Rank self,
         const SegmentLayout& layout, const Placement& placement, const Settings& settings);
  Engine(const Engine&) = delete;
  /// Fails what is pending with Aborted.
  ~Engine();

  int rank() const { return self_.value(); }
  int size() const { return ranks_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  Shared shared() const { return {progress_, memory_}; }
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  const Placement& placement() const { return placement_; }
  const Settings& settings() const { return settings_; }
  bool is_of_threads() const { return placement_.threads; }

  /// Runs a call to its end. Throws what it fails with. Returns the plan by which the same call
  /// may run from now on, as long as plans_age() does not change; null: not known yet.
  const Plan* run(const Call& call, const void* input, void* output);
  /// The same, where that plan is known and there is no progress thread.
  void run(const Plan& plan, const void* input, void* output);
  std::uint64_t plans_age() const { return plans_age_; }
  void run(Task task);
  /// Starts a task, which then moves on whenever Progress does.
  void submit(Task task);

  /// Starts messages that belong together: the operation ends with the last of them, and fails with
  /// the first failure.
  void start(const std::vector<Messages::RequestPointer>& requests,
             const std::shared_ptr<Operation>& operation);
  /// Looks for a message, or waits for one. Throws PeerLost when the source is gone.
  std::optional<MessageInfo> probe(int source, int tag);
  MessageInfo wait_for_message(int source, int tag);

  /// How calls run, or while several ways are tried, how they are expected to run in the end.
  Choice choice(const Call& call);
  /// The same with these buffers, if those of all ranks are of their kind.
  Choice choice(const Call& call, const void* input, const void* output);

  /// The fastest of several ways has been found for calls like this one, with such buffers on all
  /// ranks.
  bool is_settled(const Call& call, const void* input, const void* output);

  /// From now on buffers may be in shared memory: all ranks say this between the same calls.
  void expect_shared_buffers() {
    shared_buffers_.store(true, std::memory_order_relaxed);
    ++plans_age_;
  }
  bool expects_shared_buffers() const { return shared_buffers_.load(std::memory_order_relaxed); }

  /// Goes as far as what has arrived allows; true if that was anywhere.
  bool poll();
  /// Takes in what has come, though nobody here waits for it.
  void serve();
  /// There is something to move on.
  bool busy() const { return !tasks_.empty() || !messages_.idle(); }
  /// Looks after peers and the time; fails what is pending if need be. Called now and then while
  /// nothing moves.
  void check(std::chrono::steady_clock::time_point now);
  /// Detaches the task of an operation from its buffers; false if it is not here (any more).
  bool detach(const Operation& operation);
  /// How often poll() looks for something that has not arrived: few times if others wait for it.
  void share_core(bool shared) { executor_.set_spins(shared ? 1 : spins_); }

 private:
  /// Plans kept; a program that never repeats a call does not fill the memory.
  static constexpr std::size_t most_plans = 1024;

  Choice predicted(const Call& call);
  const Plan& plan(const Call& call);
  Plan make_plan(const Call& call, const Choice& choice);
  Bytes block_bytes() const;
  bool tries() const;
  bool tries(const Call& call) const;
  Bytes worth_shorter_blocks() const;
  Trials* trials_of(const Call& call);
  /// Whether it is known how the next call will run: not while others before it wait for a verdict
  /// or an answer. All ranks decide in the order of the calls.
  bool nothing_open() const { return tasks_.empty() || tasks_.back().plan; }
  const Plan* plan_at_end(const Call& call);
  const Plan* next_plan(const Call& call, std::deque<Task>::const_iterator place);
  /// The same plan, unless its kind is to be tried again.
  const Plan* once_more(const Plan& plan, std::deque<Task>::const_iterator place) {
    return !plan.kind || plan.kind->goes_on() ? &plan : reviewed(plan, place);
  }
  const Plan* reviewed(const Plan& plan, std::deque<Task>::const_iterator place);
  void try_again(Trials& kind);
  Task verdict(Trials& trials, const Call& call);
  const Plan* run_now(const Call& call, const void* input, void* output);
  void queue(const Call& call, const Plan* plan, const void* input, void* output, Outcome& outcome);
  bool run_at_once(const Plan& plan, const void* input, void* output);
  [[gnu::noinline]] void run_in_turn(const Call& call, const Plan* plan, const void* input,
                                     void* output);
  std::shared_ptr<const Call> question_for(const Call& call);
  std::shared_ptr<const Call> question_before(const Call& call);
  bool is_worth_asking(const Call& call);
  Call with_seen(Call call, const void* input, const void* output);
  PeerMappedBuffers seen_buffers(const Call& call, const void* input, const void* output) const;
  Task ask(const Call& question, Task& task);
  /// What comes from other hosts shows only then.
  void take_in() {
    if (!peers_.posted().empty()) transport_->progress();
  }
  bool run_tasks();
  void check_tasks(std::chrono::steady_clock::time_point now);
  std::optional<std::string> departed(int peer);
  std::optional<std::string> watched_departure(int peer);
  bool detach(Task& task, bool started);
  bool detach_messages(const Operation& operation);
  inline void prepare(const Plan& plan, const void* input, void* output);
  void begin();
  void end();
  inline void ended(const Plan& plan);
  void look_around();
  void tell(Task& task, const std::exception_ptr& error);
  void wait_for(const Outcome& outcome);
  void fail(const Failure& failure);
  void fail_all(const std::exception_ptr& error);

  const std::shared_ptr<Progress> progress_;
  const std::shared_ptr<shared::SharedMemory> memory_;
  const std::shared_ptr<Transport> transport_;
  const std::vector<int> world_ranks_;  // by rank
  const Rank self_;
  const int ranks_;
  const SegmentLayout layout_;
  const Placement placement_;
  const Settings settings_;
  const AlgorithmRules rules_;
  const int spins_;
  const bool tries_;
  const LinkModel links_;
  Peers peers_;
  HostExecutor executor_;
  RecurringBuffers recurring_;
  PeerWatch watch_;
  Messages messages_;

  std::deque<Task> tasks_;  // the first one runs
  bool running_ = false;    // it has begun
  int unwatched_calls_ = 0;
  std::unordered_map<const Operation*, std::vector<Messages::RequestPointer>> exchanges_;

  std::uint64_t seen_progress_ = 0;
  std::chrono::steady_clock::time_point stalled_since_{};

  std::unordered_map<Call, std::unique_ptr<const Plan>, CallHash> plans_;
  std::vector<std::unique_ptr<const Plan>> retired_;    // from plans_; tasks may still have some
  std::unordered_map<Call, Choice, CallHash> choices_;  // by typical call
  std::unordered_map<Call, Trials, CallHash> trials_;   // likewise
  Trial::Clock::time_point started_{};                  // of a call that is tried
  // By call: what ranks ask each other before it, if anything. Calls are kept, as plans compare
  // them by where they are.
  std::unordered_map<Call, std::shared_ptr<const Call>, CallHash> questions_;
  const Call* unasked_ = nullptr;  // one of them that nothing is asked before: often the next call
  std::atomic<bool> shared_buffers_ = false;
  const Plan* last_plan_ = nullptr;
  std::atomic<std::uint64_t> plans_age_ = 0;  // grows when plans for known calls may be others
  std::optional<Failure> failure_;
};

/// The segment that ranks of a world of this size need.
SegmentLayout segment_layout(int ranks, const Placement& placement, const Settings& settings);

}  // namespace capstan
