// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "capstan/async/foreign.hpp"
#include "capstan/deadline.hpp"

namespace capstan {

/// A coroutine that nobody awaits.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

template <class Condition>
bool comes_true(Condition condition) {
  for (const auto end = Deadline::in(std::chrono::seconds{60}); !condition();
       std::this_thread::sleep_for(std::chrono::milliseconds{1}))
    if (end.expired()) return false;
  return true;
}

template <class Error, class Call>
std::string text_thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string{"another error: "} + error.what();
  }
  return "nothing";
}

/// An operation of another library that ends, or fails, when the test says so.
struct Switch {
  std::atomic<bool> on = false, fails = false, cancelled = false;
  float result[2] = {1, 2};
};
class SwitchOperation final : public ForeignOperation {
 public:
  SwitchOperation(std::shared_ptr<Switch> with, bool cancellable = true)
      : switch_(std::move(with)), cancellable_(cancellable) {}
  std::string describe() const override { return "a switch"; }
  bool advance() override {
    if (switch_->fails) throw std::runtime_error("the switch broke");
    return switch_->on;
  }
  bool cancel() override {
    if (cancellable_) switch_->cancelled = true;
    return cancellable_;
  }
  std::optional<Operation::Output> result() override {
    return Operation::Output{DataType::f32, switch_->result, 2};
  }

 private:
  std::shared_ptr<Switch> switch_;
  bool cancellable_;
};
inline Work work_of(const std::shared_ptr<Switch>& with, bool cancellable = true) {
  return work_from(
      std::unique_ptr<ForeignOperation>(std::make_unique<SwitchOperation>(with, cancellable)));
}

}  // namespace capstan
