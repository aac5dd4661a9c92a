#include "core/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "capstan/error.hpp"
#include "core/engine/progress.hpp"

namespace capstan {
namespace {

constexpr int spins_alone = 4000, spins_sharing_a_core = 20;

Bytes chunk_of(const Placement& placement, const Settings& settings) {
  return settings.chunk > Bytes{0} ? settings.chunk : placement.chunk;
}

Placement with_chunk(Placement placement, const Settings& settings) {
  placement.chunk = chunk_of(placement, settings);
  return placement;
}

/// A block has one chunk for each rank.
Bytes block_bytes(int ranks, Bytes chunk) {
  constexpr Bytes largest{4 << 20};
  return std::min(chunk * static_cast<std::uint64_t>(ranks), largest);
}

/// Between hosts nobody reads the memory of others: all of a long message goes through the ring,
/// and a larger one needs fewer turns. Among many ranks that would take too much address space, as
/// each sees the segments of all.
Bytes message_ring(const Hosts& hosts) {
  constexpr Bytes near{64 << 10}, far{1 << 20};
  constexpr int many = 64;
  return hosts.single() || hosts.ranks() > many ? near : far;
}

}  // namespace

SegmentLayout segment_layout(int ranks, const Placement& placement, const Settings& settings) {
  const Bytes messages = Messages::area(ranks, message_ring(placement.hosts));
  // Areas of a staging buffer start on cache lines: a little more than the block itself.
  const Bytes rounding = bytes_of(staging_unit, Bytes{8}) * static_cast<std::uint64_t>(ranks + 1);
  const Bytes staging = block_bytes(ranks, chunk_of(placement, settings)) + rounding;
  return {ranks, SlotLayout{ranks, staging}, messages};
}

Engine::Engine(Shared rank, std::shared_ptr<Transport> transport, std::vector<int> world_ranks,
               Rank self, const SegmentLayout& layout, const Placement& placement,
               const Settings& settings)
    : progress_(std::move(rank.progress)),
      memory_(std::move(rank.memory)),
      transport_(std::move(transport)),
      world_ranks_(std::move(world_ranks)),
      self_(self),
      ranks_(placement.hosts.ranks()),
      layout_(layout),
      placement_(with_chunk(placement, settings)),
      settings_(settings),
      rules_(AlgorithmRules::parse(settings.algorithm)),
      spins_(placement.oversubscribed ? spins_sharing_a_core : spins_alone),
      tries_(tries()),
      links_{.reads_peers = placement.reads_peers && settings.single_copy,
             .shares_cores = placement.shares_cores,
             .huge_pages = placement.huge_pages},
      peers_(*transport_, progress_->bell(), *memory_, world_ranks_, self),
      executor_(peers_, layout, spins_),
      watch_(peers_),
      messages_(peers_, layout.messages(),
                {.ring = message_ring(placement.hosts), .read_remote = settings.single_copy}) {
  progress_->add(*this);
  if (settings.progress_thread) progress_->ensure_progress();
}

Engine::~Engine() {
  {
    const Progress::Lock lock{*progress_};
    const std::string text = fmt::format("rank {} destroyed its communicator", self_.value());
    // Said before buffers are given back: peers may be reading them.
    peers_.own_control().left.store(1, std::memory_order_seq_cst);
    fail_all(std::make_exception_ptr(Aborted(text + " while this operation was pending")));
    peers_.show_end();
  }
  progress_->remove(*this);
  progress_->announce();
}

Choice Engine::choice(const Call& call) {
  if (tries(call))
    if (const auto tried = trials_.find(typical(call)); tried != trials_.end())
      return tried->second.choice();
  return predicted(call);
}

/// The model's choice, which does not change. Choosing takes much longer than making a plan: calls
/// of about the same size share one choice.
Choice Engine::predicted(const Call& call) {
  const bool commutative = !call.user || call.user->commutative;
  const auto choose_for = [&](const Call& c) {
    return choose(c, placement_.hosts, rules_, commutative, links_);
  };
  if (!rules_.empty() || has_counts(call.collective)) return choose_for(call);
  const Call key = typical(call);
  if (choices_.size() >= most_plans) choices_.clear();
  const auto found = choices_.find(key);
  return found != choices_.end() ? found->second
                                 : choices_.emplace(key, choose_for(key)).first->second;
}

const Plan& Engine::plan(const Call& call) {
  if (last_plan_ && last_plan_->call == call) return *last_plan_;
  if (const auto known = plans_.find(call); known != plans_.end())
    return *(last_plan_ = known->second.get());
  if (plans_.size() >= most_plans && tasks_.empty())
    plans_.clear(), retired_.clear(), last_plan_ = nullptr, ++plans_age_;
  auto made = std::make_unique<Plan>(make_plan(call, choice(call)));
  made->kind = trials_of(call);
  return *(last_plan_ = plans_.emplace(call, std::move(made)).first->second.get());
}

Bytes Engine::block_bytes() const {
  return capstan::block_bytes(ranks_, placement_.chunk);
}

Plan Engine::make_plan(const Call& call, const Choice& choice) {
  Plan plan = capstan::make_plan(call, choice, placement_.hosts, self_, block_bytes(),
                                 placement_.cached_buffers, layout_.slots());
  executor_.prepare(plan);
  return plan;
}

const Plan* Engine::run(const Call& call, const void* input, void* output) {
  const auto question = expects_shared_buffers() ? question_for(call) : nullptr;
  if (!question) return run_now(call, input, output);
  const PeerMappedBuffers own = seen_buffers(call, input, output);
  Call known = call;
  run_now(*question, &own, &known.peer_mapped);
  run_now(known, input, output);
  return nullptr;
}

void Engine::run(const Plan& plan, const void* input, void* output) {
  assert(!progress_->has_thread());  // under which others may call
  if (failure_) failure_->raise();
  const Plan* const next = nothing_open() ? once_more(plan, tasks_.end()) : nullptr;
  if (!next || !tasks_.empty() || !run_at_once(*next, input, output))
    run_in_turn(plan.call, next, input, output);
}

/// After what has been called before, or what has begun goes on.
void Engine::run_in_turn(const Call& call, const Plan* plan, const void* input, void* output) {
  Outcome outcome;
  queue(call, plan, input, output, outcome);
  wait_for(outcome);
}

const Plan* Engine::run_now(const Call& call, const void* input, void* output) {
  Outcome outcome;
  const Plan* plan = nullptr;
  {
    const Progress::Lock lock{*progress_};
    if (failure_) failure_->raise();
    plan = plan_at_end(call);
    const Plan* const lasting = plan && !plan->trial ? plan : nullptr;
    if (plan && tasks_.empty() && run_at_once(*plan, input, output)) return lasting;
    queue(call, plan, input, output, outcome);
    plan = lasting;
  }
  wait_for(outcome);
  return plan;
}

/// Most calls end before they come to this, and are not to make room for a task on the stack.
[[gnu::noinline]] void Engine::queue(const Call& call, const Plan* plan, const void* input,
                                     void* output, Outcome& outcome) {
  tasks_.push_back(
      {.call = call, .plan = plan, .input = input, .output = output, .outcome = &outcome});
}

/// True when it has ended; otherwise it is to become the first task. A failure is everybody's.
bool Engine::run_at_once(const Plan& plan, const void* input, void* output) {
  prepare(plan, input, output);
  try {
    running_ = !executor_.run(plan, input, output);
  } catch (const Error& error) {
    fail(Failure::of(error));
    failure_->raise();
  }
  if (!running_) ended(plan);
  return !running_;
}

void Engine::run(Task task) {
  Outcome outcome;
  task.outcome = &outcome;
  submit(std::move(task));
  wait_for(outcome);
}

void Engine::wait_for(const Outcome& outcome) {
  progress_->drive([&] { return outcome.finished.load(std::memory_order_acquire); },
                   Deadline::never());
  if (outcome.error) std::rethrow_exception(outcome.error);
}

void Engine::submit(Task task) {
  {
    const Progress::Lock lock{*progress_};
    if (failure_) failure_->raise();
    if (!task.complete && expects_shared_buffers())
      if (const auto question = question_before(task.call)) tasks_.push_back(ask(*question, task));
    if (!task.complete) task.plan = plan_at_end(task.call);
    tasks_.push_back(std::move(task));
    // What is small is sent at once; what takes time is left to who has it, and what is tried to
    // who waits for it, so that the time is that of the call alone.
    const Plan* const first = tasks_.front().plan;
    const bool small = first && in_packets(first->protocol) && !first->trial;
    if (small && !progress_->has_thread()) poll();
  }
  progress_->announce();
  progress_->there_is_work();
}

bool Engine::poll() {
  try {
    take_in();
    const bool moved = run_tasks();
    return (!messages_.idle() && messages_.advance()) || moved;
  } catch (const Error& error) {
    fail(Failure::of(error));
    return true;
  }
}

void Engine::serve() {
  try {
    take_in();  // and sends on, after a failure too: peers are to hear of it
  } catch (const Error& error) {
    if (!failure_) fail(Failure::of(error));
  }
}

bool Engine::run_tasks() {
  const std::uint64_t before = executor_.progress();
  bool ended = false;
  for (; !tasks_.empty(); ended = true) {
    if (!running_) begin();
    if (!executor_.advance()) break;
    end();
  }
  return ended || executor_.progress() != before;
}

inline void Engine::prepare(const Plan& plan, const void* input, void* output) {
  if (placement_.huge_pages) {
    recurring_.use(input, plan.input_bytes);
    if (output != input) recurring_.use(output, plan.output_bytes);
  }
  if (plan.trial) started_ = Trial::Clock::now();
}

void Engine::begin() {
  if (Task& task = tasks_.front(); !task.plan) {
    if (const auto complete = std::exchange(task.complete, nullptr)) complete(task);
    task.plan = next_plan(task.call, tasks_.begin());
    if (!task.plan) return begin();  // what has to be told first
  }
  Task& task = tasks_.front();
  if (task.pack) task.pack();
  prepare(*task.plan, task.input, task.output);
  executor_.start(*task.plan, task.input, task.output);
  running_ = true;
  stalled_since_ = {};
}

void Engine::end() {
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = false;
  std::exception_ptr error;  // this rank's own: the others have got theirs
  try {
    if (task.unpack) task.unpack();
  } catch (const Error&) {
    error = std::current_exception();
  }
  tell(task, error);
  ended(*task.plan);
}

inline void Engine::ended(const Plan& plan) {
  if (plan.trial) plan.trial->note(started_, Trial::Clock::now());
  constexpr int calls_between_looks = 256;
  if (!plan.guarantees.synchronizes && ++unwatched_calls_ == calls_between_looks) look_around();
}

void Engine::tell(Task& task, const std::exception_ptr& error) {
  if (task.outcome) {
    task.outcome->error = error;
    task.outcome->finished.store(true, std::memory_order_release);
  }
  progress_->ended(std::move(task.operation), error, std::nullopt);
}

bool Engine::detach(const Operation& operation) {
  for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
    if (task->operation.get() != &operation) continue;
    const bool started = running_ && task == tasks_.begin();
    return detach(*task, started);
  }
  return detach_messages(operation);
}

bool Engine::detach(Task& task, bool started) {
  if (started && !executor_.hold_buffers()) return false;
  const auto go_on = [&] {
    if (started) executor_.redirect(task.input, task.output);
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
