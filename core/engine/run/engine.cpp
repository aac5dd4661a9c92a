// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

constexpr int spins_alone = 4000, spins_sharing_a_core = 20;

Autotuner::Time now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

/// The length from which calls are measured in shorter blocks, too: none where the program has set
/// the length of blocks, or where they are as short as is sensible.
Bytes shorter_blocks_from(Bytes block, int ranks, const Settings& settings) {
  constexpr Bytes never{std::numeric_limits<std::uint64_t>::max()};
  const Bytes shortened = block / (shorter_blocks * static_cast<std::uint64_t>(ranks));
  return settings.chunk == Bytes{0} && shortened >= shortest_chunk ? block : never;
}

}  // namespace

Engine::Engine(Shared rank, std::shared_ptr<Transport> transport, ByRank<int> world_ranks,
               Rank self, const SegmentLayout& layout, const MachineView& machine,
               const Settings& settings)
    : progress_(std::move(rank.progress)),
      memory_(std::move(rank.memory)),
      transport_(std::move(transport)),
      world_ranks_(std::move(world_ranks)),
      self_(self),
      ranks_(machine.hosts.ranks()),
      machine_(with_chunk_of(settings, machine)),
      settings_(with_countable_times(settings)),
      spins_(machine.oversubscribed ? spins_sharing_a_core : spins_alone),
      names_(world_ranks_, progress_->waits().processes()),
      peers_(*transport_, progress_->bell(), *memory_, world_ranks_.elements(), self),
      executor_(peers_, layout, spins_),
      watchdog_(peers_),
      messages_(peers_, layout.messages(),
                {.ring = message_ring(machine.hosts),
                 .read_remote = settings.single_copy,
                 .reads_alone = machine.oversubscribed || machine.threads,
                 .unexpected = settings.unexpected_messages}),
      plans_(selection_of(machine_, settings_), plan_context(layout), plan_hooks()) {
  if (settings.progress_thread) progress_->ensure_progress();
  progress_->add(*this);
}

AlgorithmRules rules_of(const Settings& settings, const Hosts& hosts) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  added.add_paths(settings.schedules);
  return AlgorithmRules::parse(settings.algorithm, [&](Collective collective, auto name) {
    return added.find(collective, name, hosts);
  });
}

SelectionContext selection_of(const MachineView& machine, const Settings& settings,
                              std::optional<DeviceLink> devices) {
  return {.hosts = machine.hosts,
          .rules = rules_of(settings, machine.hosts),
          .links = link_model(machine, settings, devices),
          .measured = machine.profile.part(devices).measured,
          .reproducible = settings.reproducible};
}

ProofPolicy proofs_of(const Settings& settings) {
  return {.built_in = settings.prove,
          .limit = settings.proof_limit,
          .trusts_beyond_limit = settings.trust_long_proofs,
          .reproducible = settings.reproducible};
}

PlanContext Engine::plan_context(const SegmentLayout& layout) const {
  const bool on_one_host = ranks_ > 1 && machine_.hosts.single();
  const PlanLimits limits = plan_limits(machine_);
  const bool reads_peers = machine_.reads_peers && settings_.single_copy;
  return {.self = self_,
          .layout = layout.slots(),
          .limits = limits,
          .proofs = proofs_of(settings_),
          .shorter_blocks_from = shorter_blocks_from(limits.block, ranks_, settings_),
          .autotunes = machine_.autotunes && on_one_host,
          .maps_buffers = reads_peers && !machine_.threads && on_one_host};
}

PlanCache::Hooks Engine::plan_hooks() {
  return {.plan_made =
              [this](const CachedPlan& made, const Choice&) {
                watch_for_exit();
                executor_.prepare(made.plan);
              },
          .buffers_may_have_changed = [this] { recurring_.look_again(); },
          .plans_in_use = [this] { return !tasks_.empty(); }};
}

/// The plan of a call that is put at the end of the queue.
const CachedPlan* Engine::plan_at_end(const Call& call) {
  return next_plan_is_known() ? next_plan(call, tasks_.end()) : nullptr;
}

/// The plan of the next call, in the order in which all ranks call. Null if ranks have to agree
/// first: the agreement is in the queue then, and the plan is known when the call's turn comes.
const CachedPlan* Engine::next_plan(const Call& call, Tasks::const_iterator place) {
  const auto [plan, undecided, apart] = plans_.next(call);
  if (undecided) tasks_.insert(place, agree_on_times(*undecided, call));
  if (apart) tasks_.insert(place, meet_before(*apart, call));
  return plan;
}

/// The same plan for a call at the end of the queue, unless its kind is to be measured again.
const CachedPlan* Engine::plan_again(const CachedPlan& plan) {
  if (!next_plan_is_known()) return nullptr;
  return PlanCache::runs_again(plan) ? &plan : next_plan(plan.plan.call, tasks_.end());
}

void Engine::run(const Call& call, const void* input, void* output) {
  Progress::Lock lock{*progress_};
  entered_ = 0;
  run(lock, call, input, output, nullptr);
}

bool Engine::run(Progress::Lock& lock, const Call& call, const void* input, void* output,
                 const Request* request, const GoesOn* goes_on) {
  const auto agreement = expects_shared_buffers() ? plans_.visibility_agreement(call) : nullptr;
  if (!agreement) return run_call(lock, call, input, output, request, goes_on), true;
  if (goes_on) return false;
  const PeerMappedBuffers own = peer_mapped(call, input, output);
  Call agreed = call;
  run_call(lock, *agreement, &own, &agreed.peer_mapped, nullptr, nullptr);
  lock.unlock();
  Progress::Lock again{*progress_};
  run_call(again, agreed, input, output, nullptr, nullptr);
  return true;
}

bool Engine::run(const Request& request, RunNew run_new, const GoesOn* goes_on) {
  Progress::Lock lock{*progress_};
  const RepeatedCalls::Entry* const known = plans_.lookup(request);
  if (known ? known->plan->timed : observer_ != nullptr) entered_ = now();
  if (!known) return run_new(*this, lock, request, goes_on);
  if (failure_) failure_->raise();
  const auto [plan, input, output] = std::tuple{known->plan, known->input, known->output};
  const CachedPlan* const next = plan_again(*plan);
  if (!next || !tasks_.empty() || !run_unqueued(*next, input, output))
    push(lock, plan->plan.call, next, input, output, goes_on);
  return true;
}

void Engine::run_call(Progress::Lock& lock, const Call& call, const void* input, void* output,
                      const Request* request, const GoesOn* goes_on) {
  if (failure_) failure_->raise();
  const CachedPlan* const plan = plan_at_end(call);
  if (request && plan && !plan->measured) plans_.remember(*request, input, output, plan);
  if (!plan || !tasks_.empty() || !run_unqueued(*plan, input, output))
    push(lock, call, plan, input, output, goes_on);
}

/// Queues a call behind the calls before it, or a call that has begun but not ended, and waits for
/// its end, unless it continues as an operation. Not inlined: most calls end without becoming a
/// task, and need no room for one on the stack.
[[gnu::noinline]] void Engine::push(Progress::Lock& lock, const Call& call, const CachedPlan* plan,
                                    const void* input, void* output, const GoesOn* goes_on) {
  Outcome outcome;
  Task task{.plan = plan, .input = input, .output = output};
  if (!plan) task.call = call;
  if (goes_on)
    (*goes_on)(task);
  else
    task.outcome = &outcome;
  tasks_.push_back(std::move(task));
  lock.unlock();
  if (!goes_on) return wait_for(outcome);
  progress_->announce();
  progress_->there_is_work();
}

/// True when the call has ended; otherwise the caller queues it as the first task. An error fails
/// the communicator for all ranks.
bool Engine::run_unqueued(const CachedPlan& plan, const void* input, void* output) {
  before_call(plan, input, output);
  try {
    running_ = !executor_.run(plan.plan, input, output);
  } catch (...) {
    if (plan.timed) note_end(plan, true);
    fail(current_failure());
    failure_->raise();
  }
  if (!running_) after_call(plan);
  return !running_;
}

void Engine::run_queued(Task task) {
  Outcome outcome;
  task.outcome = &outcome;
  enqueue(std::move(task));
  wait_for(outcome);
}

void Engine::wait_for(const Outcome& outcome) {
  progress_->drive([&] { return outcome.finished.load(std::memory_order_acquire); },
                   Deadline::never());
  if (outcome.error) std::rethrow_exception(outcome.error);
}

bool Engine::poll() {
  try {
    receive_from_hosts();
    const bool moved = run_tasks();
    return (!messages_.idle() && messages_.advance()) || moved;
  } catch (...) {
    fail(current_failure());
    return true;
  }
}

bool Engine::serve() {
  try {
    receive_from_hosts();  // also sends, even after a failure: peers have to learn of it
    return !failure_ && messages_.advance();
  } catch (...) {
    if (!failure_) fail(current_failure());
    return true;
  }
}

bool Engine::run_tasks() {
  Executor& by = executor();
  const std::uint64_t before = by.progress();
  bool ended = false;
  for (; !tasks_.empty(); ended = true) {
    if (!running_ && !begin_first()) break;
    if (!by.advance()) break;
    end_first();
  }
  return ended || by.progress() != before;
}

inline void Engine::before_call(const CachedPlan& plan, const void* input, void* output) {
  if (machine_.huge_pages) {
    // The output is the longer buffer of a call in place: ranks that only receive have no input.
    recurring_.use(output, plan.plan.output_bytes);
    if (output != input) recurring_.use(input, plan.plan.input_bytes);
  }
  if (plan.timed) begin_timed_call(plan.measured);
}

[[gnu::noinline]] void Engine::begin_timed_call(bool measured) {
  if (observer_)
    if (StepLog* const log = observer_->step_log()) log->begin_call();
  const Autotuner::Time entered = std::exchange(entered_, 0);
  observed_from_ = entered != 0 ? entered : now();
  call_began_ = entered != 0 && measured ? now() : observed_from_;
}

inline void Engine::after_call(const CachedPlan& plan) {
  if (plan.timed) note_end(plan, false);
  constexpr int calls_between_checks = 256;
  if (!plan.plan.guarantees.synchronizes && ++calls_since_check_ == calls_between_checks)
    check_peers();
}

/// A timed call has ended.
[[gnu::noinline]] void Engine::note_end(const CachedPlan& plan, bool failed) {
  const Autotuner::Time ended = now();
  if (plan.measured && !failed) {
    PlanCache::note(plan, call_began_, ended);
    executor_.prepare_trial(plan.plan);
  }
  if (observer_ && plan.plan.call.purpose == Purpose::caller)
    observer_->ended(plan, observed_from_, ended, failed);
}

void Engine::observe(std::shared_ptr<CallObserver> observer) {
  const Progress::Lock lock{*progress_};
  observer_ = std::move(observer);
  executor_.record_steps(observer_ ? observer_->step_log() : nullptr);
  plans_.time_calls(observer_ != nullptr);
  if (running_) call_began_ = observed_from_ = now();
}

/// False: what runs the first task has not come to it.
bool Engine::begin_first() {
  entered_ = 0;  // a call in the queue begins when its turn comes
  if (Task& task = tasks_.front(); !task.plan) {
    if (const auto complete = std::exchange(task.complete_call, nullptr)) complete(task);
    task.plan = next_plan(*task.call, tasks_.begin());
    if (!task.plan) return begin_first();  // the agreement, which is now first
  }
  Task& task = tasks_.front();
  if (!other_) {
    task.transfers.run_inputs();
    before_call(*task.plan, task.input, task.output);
  }
  running_ = executor().start(task.plan->plan, task.input, task.output);
  stalled_since_ = {};
  return running_;
}

void Engine::end_first() {
  TaskQueue::Taken task = tasks_.take_front();
  running_ = false;
  std::exception_ptr error;  // concerns this rank alone: peers have their results
  try {
    task->transfers.run_outputs();
  } catch (...) {
    error = std::current_exception();
  }
  report_end(*task, error);
  after_call(*task->plan);
  progress_->waits().forget_failure();
}

void Engine::report_end(Task& task, const std::exception_ptr& error) {
  if (task.outcome) {
    task.outcome->error = error;
    task.outcome->finished.store(true, std::memory_order_release);
  }
  progress_->ended(std::move(task.operation), error, std::nullopt);
}

bool Engine::detach(const Operation& operation) {
  for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
    if (task->operation.get() != &operation) continue;
    const bool started = other_ || (running_ && task == tasks_.begin());
    return detach(*task, started);
  }
  return detach_messages(operation);
}

bool Engine::detach(Task& task, bool started) {
  if (started && !executor().hold_buffers()) return false;
  const auto go_on = [&] {
    if (started) executor().redirect(task.input, task.output);
  };
  try {
    capstan::detach(task, started);
  } catch (...) {  // there is no memory for copies
    go_on();
    throw;
  }
  task.operation.reset();
  go_on();
  return true;
}

}  // namespace capstan
