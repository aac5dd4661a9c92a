#include "core/engine/progress.hpp"

#include <sched.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/process_exit.hpp"
#include "core/net/limits.hpp"
#include "core/net/log.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

// A rank with a core of its own spins for long before it yields: another program on that core would
// keep it for milliseconds, while all ranks wait.
constexpr auto spin_before_yield = 1ms;
constexpr auto yield_before_sleep = 2ms;
constexpr auto check_interval = 20ms;
// When two threads wait at once, each may end the operation that the other waits for.
constexpr auto longest_sleep_among_several = 1ms;
/// Time that exit() may take before threads that it has left in calls get an error.
constexpr auto longest_exit = 5s;
/// Time that a callback on the progress thread may take when the process exits.
constexpr auto longest_callback_at_exit = 1s;

/// Lets this thread run only while others on its core have nothing to do. Otherwise the system lets
/// a thread that wakes up take the core from the one that woke it: a call that starts an operation
/// would return when the operation has ended.
// measured: docs/lab-notebook.md#a-progress-thread-that-waits
void give_way_to_others() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;  // the program has decided
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace

/// Spin, then yield, then sleep, by time without progress. Peers are checked now and then.
class Progress::Backoff {
 public:
  explicit Backoff(bool oversubscribed) : oversubscribed_(oversubscribed) {}

  /// There was progress.
  void reset() { since_ = Clock::time_point{}; }

  void pause(Progress& progress, Deadline deadline) {
    const auto now = Clock::now();
    if (since_ == Clock::time_point{}) since_ = now;
    if (check_due_ == Clock::time_point{}) check_due_ = now + check_interval;
    if (now > check_due_) check_due_ = progress.check();
    if (now - since_ > yield_before_sleep) {
      const auto several = progress.drivers_.load() > 1;
      const auto most = several ? longest_sleep_among_several : longest_sleep.load();
      if (progress.sleep(std::min<std::chrono::nanoseconds>(most, deadline.remaining()))) reset();
    } else if (oversubscribed_ || progress.core_.is_shared(now) ||
               now - since_ > spin_before_yield) {
      progress.core_.yield(now);
    }
  }

 private:
  const bool oversubscribed_;
  Clock::time_point since_{}, check_due_{};
};

Progress::Progress(std::shared_ptr<Transport> bell, Options options)
    : bell_(std::move(bell)),
      options_(std::move(options)),
      waits_(*bell_, options_.self, options_.processes, options_.timeout) {}

Progress::~Progress() = default;

void Progress::become_child() noexcept {
  threaded_.store(false, std::memory_order_relaxed);
  kept_ = weak_from_this().lock();
}

void Progress::add(Engine& engine) {
  const Lock lock{*this};
  engines_.push_back(&engine);
}

void Progress::remove(Engine& engine) {
  bool last = false;
  {
    const Lock lock{*this};
    std::erase(engines_, &engine);
    last = engines_.empty();
  }
  if (!last || !thread_.joinable()) return;
  stop_thread();
  // A callback on the thread itself may have dropped the last communicator.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void Progress::stop_thread() {
  thread_.request_stop();
  {
    const std::lock_guard lock{mutex_.plain()};
  }
  work_.notify_all();
}

void Progress::leave_at_exit() {
  {
    const Lock lock{*this};
    if (++left_engines_ < engines_.size()) return;
    exiting_thread_ = std::this_thread::get_id();
    left_at_exit_ = true;
  }
  if (!thread_.joinable() || thread_.get_id() == exiting_thread_) return;
  stop_thread();
  const Deadline longest = Deadline::in(longest_callback_at_exit);
  while (!thread_ended_ && !longest.expired()) std::this_thread::sleep_for(100us);
  if (thread_ended_) thread_.join();
}

void Progress::await_exit() const {
  if (std::this_thread::get_id() != exiting_thread_) std::this_thread::sleep_for(longest_exit);
  throw Aborted("exit() has destroyed this communicator while this operation was pending");
}

bool Progress::poll() {
  bool moved = false;
  {
    const Lock lock{*this};
    int busy = 0;
    for (const Engine* engine : engines_) busy += engine->busy() ? 1 : 0;
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (!engines_[i]->busy()) continue;
      engines_[i]->share_core(busy > 1 || core_.is_shared());
      moved |= engines_[i]->poll();
    }
    moved |= !ended_.empty();
  }
  announce();
  if (mutex_.is_awaited()) sched_yield();
  return moved;
}

/// All engines receive what has arrived, whatever they wait for: peers may need that to go on. Done
/// only where poll() finds nothing, after it has looked thousands of times.
bool Progress::serve() {
  bool moved = false;
  {
    const Lock lock{*this};
    progress_world();
    for (std::size_t i = 0; i < engines_.size(); ++i) moved |= engines_[i]->serve();
  }
  announce();
  return moved;
}

bool Progress::busy() const {
  return std::ranges::any_of(engines_, [](const Engine* engine) { return engine->busy(); });
}

bool Progress::idle() {
  const Lock lock{*this};
  return !busy();
}

Progress::Clock::time_point Progress::check() {
  const auto now = Clock::now();
  {
    const Lock lock{*this};
    progress_world();
    waits_.look(now);
    for (std::size_t i = 0; i < engines_.size(); ++i)
      if (engines_[i]->busy()) engines_[i]->check(now);
    tell(now);
  }
  announce();
  const auto end = Clock::now();
  return end + std::max<Clock::duration>(check_interval, 9 * (end - now));
}

void Progress::progress_world() {
  try {
    bell_->progress();
  } catch (const Error&) {  // the engine that it concerns meets it again
  }
}

/// Tells the ranks of the world what the operations of all communicators of this rank wait for.
void Progress::tell(Clock::time_point now) {
  Wait all = forming_;
  for (const Engine* engine : engines_) capstan::add(all, engine->wait(now));
  if (all.kind == Wait::Kind::none) return waits_.withdraw();
  try {
    waits_.tell(all, now);
  } catch (const Error&) {  // of a peer that cannot be told; the engine that it concerns meets it
  }
  tells_waits_.store(true, std::memory_order_relaxed);
}

/// Most groups are formed before the thread has anything to tell.
Progress::Forming::Forming(Progress& progress, std::vector<Rank> members)
    : progress_(progress), began_(Clock::now()) {
  std::erase(members, progress.options_.self);
  std::ranges::sort(members);
  Wait wait{.kind = Wait::Kind::form, .peer_count = static_cast<int>(members.size())};
  members.resize(std::min(members.size(), Wait::most_peers));
  wait.peers = std::move(members);
  thread_ = start_thread("forming a group", [this, wait](const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (!changed_.wait_for(lock, stop, progress_.waits_.beat_interval(),
                              [&] { return stop.stop_requested(); }))
      tell(wait);
  });
}

Progress::Forming::~Forming() {
  thread_.request_stop();
  thread_.join();
  const Lock lock{progress_};
  progress_.forming_ = {};
  progress_.tell(Clock::now());
}

void Progress::Forming::tell(const Wait& wait) {
  const Lock lock{progress_};
  const auto now = Clock::now();
  progress_.forming_ = wait;
  progress_.forming_.waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_);
  progress_.tell(now);
  progress_.progress_world();
}

/// Nobody moves operations on now: what has been told about them no longer holds.
void Progress::stop_telling() {
  if (!tells_waits_.load(std::memory_order_relaxed)) return;
  const Lock lock{*this};
  tells_waits_.store(false, std::memory_order_relaxed);
  waits_.withdraw();
}

void Progress::ended(std::shared_ptr<Operation> operation, std::exception_ptr error,
                     const std::optional<MessageInfo>& message) {
  if (operation) ended_.push_back({std::move(operation), std::move(error), message});
}

void Progress::announce() {
  decltype(ended_) ended;
  {
    const Lock lock{*this};
    if (ended_.empty()) return;
    ended.swap(ended_);
  }
  for (const auto& [operation, error, message] : ended) {
    error ? operation->fail(error) : operation->complete(message);
    if (is_inherited()) return;  // a callback has forked: the parent goes on
  }
  ended.clear();
  const Lock lock{*this};
  if (ended_.empty()) ended_.swap(ended);  // the memory serves the next ones
}

void Progress::announce_silently() {
  decltype(ended_) ended;
  {
    const Lock lock{*this};
    ended.swap(ended_);
  }
  for (const auto& [operation, error, message] : ended)
    error ? operation->fail_silently(error) : operation->complete(message);
}

void Progress::there_is_work() {
  if (!threaded_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock{mutex_.plain()};
  }  // the thread sleeps now, or will look for work before it does
  work_.notify_one();
}

/// Sleeps until a peer has news; true if something has moved meanwhile.
bool Progress::sleep(std::chrono::nanoseconds at_most) {
  const std::unique_lock role{sleeping_, std::try_to_lock};
  if (!role) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(at_most, 100us));
    return false;
  }
  bell_->prepare_to_sleep();
  if (poll() || serve()) {
    bell_->cancel_sleep();
    return true;
  }
  const auto began = Clock::now();
  bell_->sleep(at_most);
  if (at_most >= longest_sleep.load() && Clock::now() - began >= at_most) ++sleeps_that_ran_out;
  return false;
}

bool Progress::drive(const std::function<bool()>& done, Deadline deadline) {
  struct Driving {
    explicit Driving(std::atomic<int>& count) : drivers(count) { ++drivers; }
    ~Driving() { --drivers; }
    std::atomic<int>& drivers;
  };
  const bool finished = [&] {
    const Driving driving{drivers_};
    Backoff backoff{options_.oversubscribed};
    while (!done()) {
      if (left_at_exit_) [[unlikely]]
        await_exit();
      if (poll()) {
        backoff.reset();
        continue;
      }
      if (done()) break;
      if (deadline.expired()) return false;
      serve();
      backoff.pause(*this, deadline);
    }
    return true;
  }();
  stop_telling();
  there_is_work();  // the progress thread has left the work to this caller
  return finished;
}

void Progress::advance() {
  if (left_at_exit_) [[unlikely]]
    await_exit();
  if (poll()) return;
  serve();
  const auto now = Clock::now();
  if (now > check_due_.load()) {
    check_due_ = now + check_interval;  // other callers go on meanwhile
    check_due_ = check();
  }
  if (options_.oversubscribed || core_.is_shared(now)) core_.yield(now);  // callers ask in a loop
}

bool Progress::cancel(Operation& operation) {
  bool detached = false;
  {
    const Lock lock{*this};
    for (std::size_t i = 0; i < engines_.size() && !detached; ++i)
      detached = engines_[i]->detach(operation);
  }
  if (detached) operation.cancelled();
  return detached;
}

void Progress::ensure_progress() {
  require_own_process();
  if (threaded_.exchange(true)) return;
  mutex_.share();
  try {
    thread_ = start_thread("progress", [self = shared_from_this()](const std::stop_token& stop) {
      self->run_thread(stop);
    });
  } catch (const SystemError&) {
    threaded_ = false;
    throw;
  }
}

bool Progress::ensure_overlap() {
  require_own_process();
  const bool free_core = options_.free_core || !options_.thread_processors.empty();
  static std::atomic<bool> said = false;
  if (!free_core && !has_thread() && !said.exchange(true))
    log().warn(
        "no core is free for a progress thread beside the ranks of this host: a computation that "
        "keeps its core busy hides no communication; start fewer ranks, or bind each to one core");
  if (!options_.oversubscribed) ensure_progress();
  return free_core;
}

void Progress::run_thread(const std::stop_token& stop) {
  if (!options_.thread_processors.empty()) bind_this_thread(options_.thread_processors);
  if (!options_.free_core && options_.thread_processors.empty()) give_way_to_others();
  while (!stop.stop_requested() && !is_inherited()) {
    {
      std::unique_lock lock{mutex_.plain()};
      work_.wait(lock, [&] { return stop.stop_requested() || (drivers_ == 0 && busy()); });
    }
    Backoff backoff{options_.oversubscribed};
    while (!stop.stop_requested() && drivers_ == 0 && !is_inherited()) {
      if (poll()) {
        backoff.reset();
        continue;
      }
      if (idle()) break;
      serve();
      backoff.pause(*this, Deadline::never());
    }
    stop_telling();
  }
  thread_ended_ = true;
}

}  // namespace capstan
