#include "core/engine/progress.hpp"

#include <sched.h>

#include <algorithm>

#include "core/engine/engine.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

// How a wait goes on: engines look for a while, then the core is yielded, then the rank sleeps
// until it is woken. Peers are looked after all the while. A rank with a core of its own is in no
// hurry to yield: what else runs there would keep the core for milliseconds, and all ranks wait.
constexpr auto spin_before_yield = 1ms;
// Unless that gives the core back soon, like ranks of another job do that wait in this way: then
// all get on faster if none spins. Seen by how long a yield has taken, and believed for a while.
constexpr std::chrono::microseconds shortest_turn = 5us, longest_turn = 2ms;
constexpr auto remembered = 50ms;
constexpr auto yield_before_sleep = 2ms;
constexpr auto longest_sleep = 20ms;
constexpr auto check_interval = 20ms;
// When two wait at once, one may end what the other waits for.
constexpr auto longest_sleep_among_several = 1ms;

}  // namespace

/// How long nothing has moved, and what that means.
class Progress::Patience {
 public:
  explicit Patience(bool oversubscribed) : oversubscribed_(oversubscribed) {}

  void moved() { since_ = Clock::time_point{}; }

  /// Yields or sleeps as becomes the time that has passed in vain; now and then looks after peers.
  void lose(Progress& progress, Deadline deadline) {
    const auto now = Clock::now();
    if (since_ == Clock::time_point{}) since_ = now;
    if (now - last_check_ > check_interval) {
      if (last_check_ != Clock::time_point{}) progress.check();
      last_check_ = now;
    }
    if (now - since_ > yield_before_sleep) {
      const auto several = progress.drivers_.load() > 1;
      const auto most = several ? longest_sleep_among_several : longest_sleep;
      if (progress.sleep(std::min<std::chrono::nanoseconds>(most, deadline.remaining()))) moved();
    } else if (oversubscribed_ || progress.shares_core(now) || now - since_ > spin_before_yield) {
      progress.yield(now);
    }
  }

 private:
  const bool oversubscribed_;
  Clock::time_point since_{}, last_check_{};
};

void Progress::yield(Clock::time_point now) {
  sched_yield();
  const auto away = Clock::now() - now;
  if (away < shortest_turn || away > longest_turn) return;
  sharing_until_ = now + remembered;
  sharing_ = true;
}

/// Whether others who give it back soon use this core, too.
bool Progress::shares_core(Clock::time_point now) {
  if (sharing_ && now > sharing_until_.load()) sharing_ = false;
  return sharing_;
}

void Progress::lock() {
  waiting_for_lock_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  waiting_for_lock_.fetch_sub(1, std::memory_order_relaxed);
}

Progress::Progress(std::shared_ptr<Transport> bell, Options options)
    : bell_(std::move(bell)), options_(std::move(options)) {}

Progress::~Progress() = default;

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
  thread_.request_stop();
  {
    const std::lock_guard lock{mutex_};
  }
  work_.notify_all();
  // A callback on the thread itself may have dropped the last communicator.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

bool Progress::poll() {
  bool moved = false;
  {
    const Lock lock{*this};
    int busy = 0;
    for (const Engine* engine : engines_) busy += engine->busy() ? 1 : 0;
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (!engines_[i]->busy()) continue;
      engines_[i]->share_core(busy > 1 || sharing_);
      moved |= engines_[i]->poll();
    }
    moved |= !ended_.empty();
  }
  announce();
  if (waiting_for_lock_.load(std::memory_order_relaxed) > 0) sched_yield();
  return moved;
}

/// Peers may still need engines that have nothing to do: what they send has to be taken in.
void Progress::serve_idle() {
  const Lock lock{*this};
  bell_->progress();
  for (std::size_t i = 0; i < engines_.size(); ++i)
    if (!engines_[i]->busy()) engines_[i]->serve();
}

bool Progress::busy() const {
  return std::ranges::any_of(engines_, [](const Engine* engine) { return engine->busy(); });
}

bool Progress::idle() {
  const Lock lock{*this};
  return !busy();
}

void Progress::check() {
  {
    const Lock lock{*this};
    const auto now = Clock::now();
    for (std::size_t i = 0; i < engines_.size(); ++i)
      if (engines_[i]->busy()) engines_[i]->check(now);
  }
  announce();
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
  for (const auto& [operation, error, message] : ended)
    error ? operation->fail(error) : operation->complete(message);
}

void Progress::there_is_work() {
  if (!threaded_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock{mutex_};
  }  // the thread has seen what it looks at, or sleeps
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
  if (poll()) {
    bell_->cancel_sleep();
    return true;
  }
  bell_->sleep(at_most);
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
    Patience patience{options_.oversubscribed};
    while (!done()) {
      if (poll()) {
        patience.moved();
        continue;
      }
      if (done()) break;
      if (deadline.expired()) return false;
      serve_idle();
      patience.lose(*this, deadline);
    }
    return true;
  }();
  there_is_work();  // for the thread, which stood back
  return finished;
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
  if (threaded_.exchange(true)) return;
  thread_ = std::jthread{
      [self = shared_from_this()](const std::stop_token& stop) { self->run_thread(stop); }};
}

void Progress::run_thread(const std::stop_token& stop) {
  if (!options_.thread_processors.empty()) bind_this_thread(options_.thread_processors);
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock{mutex_};
      work_.wait(lock, [&] { return stop.stop_requested() || (drivers_ == 0 && busy()); });
    }
    Patience patience{options_.oversubscribed};
    while (!stop.stop_requested() && drivers_ == 0) {
      if (poll()) {
        patience.moved();
        continue;
      }
      if (idle()) break;
      patience.lose(*this, Deadline::never());
    }
  }
}

}  // namespace capstan
