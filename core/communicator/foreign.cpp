// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/foreign.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "core/communicator/background.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/own_process.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Moves one foreign operation on: in threads that wait for it, and in the background.
class ForeignDriver final : public Driver, public std::enable_shared_from_this<ForeignDriver> {
 public:
  explicit ForeignDriver(std::unique_ptr<ForeignOperation> foreign)
      : foreign_(std::move(foreign)) {}

  void drives(const std::shared_ptr<Operation>& operation) { operation_ = operation; }

  bool drive(const std::function<bool()>& done, Deadline deadline) override {
    while (!done()) {
      require_own_process();
      advance();
      if (done()) break;
      if (deadline.expired()) return false;
      foreign_->sleep(std::min<std::chrono::nanoseconds>(1ms, deadline.remaining()));
    }
    return true;
  }

  void advance() override {
    require_own_process();
    const auto operation = operation_.lock();
    if (!operation) return;
    std::exception_ptr error;
    {
      const std::lock_guard lock{mutex_};
      if (finished_) return;
      try {
        if (!foreign_->advance()) return;
        operation->set_output(foreign_->result());
      } catch (...) {
        error = std::current_exception();
      }
      finished_ = true;
    }
    error ? operation->fail(error) : operation->complete();
  }

  bool cancel(Operation& operation) override {
    require_own_process();
    {
      const std::lock_guard lock{mutex_};
      if (finished_ || !foreign_->cancel()) return false;
      finished_ = true;
    }
    operation.cancelled();
    return true;
  }

  void ensure_progress() override {
    require_own_process();
    if (in_background_.exchange(true)) return;
    const auto operation = operation_.lock();
    if (!operation || operation->ended()) return;
    Background::of_process().add(Deadline::Clock::now(),
                                 [operation, this]() -> std::optional<Deadline::Clock::duration> {
                                   advance();
                                   if (operation->ended()) return std::nullopt;
                                   return 1ms;
                                 });
  }

  void require_own_process() const override { process_.require("this operation"); }

 private:
  const std::unique_ptr<ForeignOperation> foreign_;
  const OwnProcess process_{};
  std::weak_ptr<Operation> operation_;
  std::mutex mutex_;
  bool finished_ = false;  // under the mutex: nothing of it is called any more but sleep()
  std::atomic<bool> in_background_ = false;
};

}  // namespace

void ForeignOperation::sleep(std::chrono::nanoseconds at_most) {
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(at_most, 50us));
}

Work work_from(std::unique_ptr<ForeignOperation> foreign) {
  if (!foreign) throw InvalidArgument("work_from: there is no operation: pass one that exists");
  std::string text = foreign->describe();
  const auto driver = std::make_shared<ForeignDriver>(std::move(foreign));
  const auto operation = std::make_shared<Operation>(driver, std::move(text), std::nullopt);
  driver->drives(operation);
  return Work{operation};
}

void detail::run_on_thread(std::function<void()> function) {
  start_thread("a function", std::move(function)).detach();
}

}  // namespace capstan
