// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/execute.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "capstan/async/within.hpp"
#include "core/base/error_text.hpp"
#include "core/communicator/background.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// How often time limits and stop requests are looked at.
constexpr std::chrono::milliseconds between_looks{20};

std::vector<std::string> names_of_pending(std::span<const Work> works) {
  std::vector<std::string> names;
  for (const Work& work : works)
    if (!work.has_ended()) names.push_back(work.describe());
  return names;
}

void cancel_pending(std::span<const Work> works) {
  for (const Work& work : works) work.withdraw();
}

/// Why operations that belong together are to be given up; null if they are not.
std::exception_ptr trouble_of(std::span<const Work> works, Deadline deadline,
                              const std::stop_token& stop) {
  const auto failed =
      std::ranges::find_if(works, [](const Work& work) { return work.error() != nullptr; });
  if (failed != works.end())
    return std::make_exception_ptr(
        OperationFailed(fmt::format("{} failed: {}", failed->describe(), text_of(failed->error())),
                        failed->error()));
  const bool stopped = stop.stop_requested(), late = deadline.expired();
  if (!stopped && !late) return nullptr;
  auto names = names_of_pending(works);
  if (names.empty()) return nullptr;
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (stopped)
    return std::make_exception_ptr(Cancelled(fmt::format("a stop was requested during {}", list)));
  return std::make_exception_ptr(
      DeadlineExceeded(fmt::format("{} did not complete within {}", list, deadline.budget()),
                       deadline.limit(), std::move(names)));
}

/// Drives operations that belong together, and decides about their common handle.
class Together final : public Driver, public std::enable_shared_from_this<Together> {
 public:
  Together(std::vector<Work> works, Deadline deadline, std::stop_token stop)
      : works_(std::move(works)), deadline_(deadline), stop_(std::move(stop)) {}

  std::string text() const {
    return works_.size() == 1 ? works_.front().describe()
                              : fmt::format("{} operations together", works_.size());
  }

  /// Sees to it that the handle ends though nobody waits.
  void watch(const std::shared_ptr<Operation>& all) {
    all_ = all;
    for (const Work& work : works_) work.ensure_progress();
    for (const Work& work : works_) work.on_complete([all, this](const Work&) { settle(*all); });
    settle(*all);
    if (deadline_.is_never() && !stop_.stop_possible()) return;
    Background::of_process().add(next_look(),
                                 [all, this]() -> std::optional<Deadline::Clock::duration> {
                                   settle(*all);
                                   if (all->ended()) return std::nullopt;
                                   return next_look() - Deadline::Clock::now();
                                 });
  }

  bool drive(const std::function<bool()>& done, Deadline deadline) override {
    while (!done()) {
      std::vector<Work> pending = works_;
      std::erase_if(pending, &Work::has_ended);
      if (pending.empty())
        std::this_thread::sleep_for(100us);  // another thread is about to end the handle
      else
        Work::wait_any(pending, Deadline::in(1ms).clamp(deadline));
      if (const auto all = all_.lock()) settle(*all);
      if (deadline.expired()) return done();
    }
    return true;
  }
  void advance() override { Work::advance(works_); }
  void ensure_progress() override {}  // since watch()
  bool ensure_overlap() override {
    bool can = true;
    for (const Work& work : works_) can = work.ensure_overlap() && can;
    return can;
  }
  void require_own_process() const override {
    for (const Work& work : works_) work.state()->driver()->require_own_process();
  }

  bool cancel(Operation& all) override {
    bool free = true;
    for (const Work& work : works_)
      if (!work.has_ended()) free = work.cancel() && free;
    settle(all);
    return free && all.state() == Operation::State::cancelled;
  }

 private:
  Deadline::Clock::time_point next_look() const {
    return std::min(Deadline::Clock::now() + between_looks, deadline_.when());
  }

  /// Ends the handle if it is time to. Those that are given up are cancelled first.
  void settle(Operation& all) {
    if (all.ended()) return;
    const auto trouble = trouble_of(works_, deadline_, stop_);
    if (trouble) {
      if (settling_.exchange(true)) return;
      cancel_pending(works_);
      return all.fail(trouble);
    }
    if (!std::ranges::all_of(works_, &Work::has_ended) || settling_.exchange(true)) return;
    if (std::ranges::any_of(works_, &Work::is_cancelled)) return all.cancelled();
    if (works_.size() != 1) return all.complete();
    all.set_output(works_.front().state()->output());
    all.complete(works_.front().message());
  }

  const std::vector<Work> works_;
  const Deadline deadline_;
  const std::stop_token stop_;
  std::weak_ptr<Operation> all_;
  std::atomic<bool> settling_ = false;
};

}  // namespace

namespace detail {

void give_up(std::span<const Work> works) {
  const auto cause = std::current_exception();
  cancel_pending(works);
  throw OperationFailed("an operation could not be started: " + text_of(cause), cause);
}

void resume_within(const Work& work, Deadline deadline, std::stop_token stop,
                   std::coroutine_handle<> coroutine) {
  const auto resumed = std::make_shared<std::atomic<bool>>(false);
  const auto resume = [resumed, coroutine] {
    if (!resumed->exchange(true)) coroutine.resume();
  };
  work.ensure_progress();
  if (!deadline.is_never() || stop.stop_possible())
    Background::of_process().add(
        Deadline::Clock::now(), [=, work = work]() -> std::optional<Deadline::Clock::duration> {
          if (resumed->load()) return std::nullopt;
          if (!stop.stop_requested() && !deadline.expired())
            return std::min<Deadline::Clock::duration>(between_looks, deadline.remaining());
          resume();
          return std::nullopt;
        });
  work.on_complete([resume](const Work&) { resume(); });
}

void end_of_wait(const Work& work, Deadline deadline, const std::stop_token& stop) {
  if (work.has_ended()) return work.wait();
  if (stop.stop_requested())
    throw Cancelled(
        fmt::format("a stop was requested while {} was awaited; it continues", work.describe()));
  throw DeadlineExceeded(fmt::format("{} did not complete within {}; it continues", work.describe(),
                                     deadline.budget()),
                         deadline.limit(), {work.describe()});
}

}  // namespace detail

void finish_all(std::span<const Work> works, TimeLimit limit, const std::stop_token& stop) {
  const Deadline deadline = limit.deadline();
  std::vector<Work> pending(works.begin(), works.end());
  while (!pending.empty()) {
    // The driver of one operation moves on all operations of its rank.
    Work::wait_any(pending, Deadline::in(between_looks).clamp(deadline));
    std::erase_if(pending, &Work::has_ended);
    const auto trouble = trouble_of(works, deadline, stop);
    if (!trouble) continue;
    cancel_pending(works);
    std::rethrow_exception(trouble);
  }
  for (const Work& work : works) work.wait();  // throws Cancelled if somebody else cancelled it
}

Work together(std::vector<Work> works, TimeLimit limit, const std::stop_token& stop) {
  for (const Work& work : works) (void)work.has_ended();  // refuses empty ones
  const auto driver = std::make_shared<Together>(std::move(works), limit.deadline(), stop);
  const auto all = std::make_shared<Operation>(driver, driver->text(), std::nullopt);
  driver->watch(all);
  return Work{all};
}

}  // namespace capstan
