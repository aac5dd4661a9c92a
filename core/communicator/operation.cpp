// SPDX-License-Identifier: Apache-2.0
#include "capstan/operation.hpp"

#include "core/engine/executor/accumulating.hpp"

namespace capstan {

const std::string& Operation::text() const {
  const std::lock_guard lock{mutex_};
  if (text_.empty()) text_ = make_text();
  return text_;
}

void Operation::when_ended(Callback callback) {
  if (!ended()) driver_->require_own_process();
  {
    const std::lock_guard lock{mutex_};
    if (!ended()) return callbacks_.push_back(std::move(callback));
  }
  callback(*this);
}

/// Returns the callbacks that are to run; none if it had ended already.
std::vector<Operation::Callback> Operation::set_end(State state, std::exception_ptr error,
                                                    std::optional<MessageInfo> message) {
  std::vector<Callback> callbacks;
  const std::lock_guard lock{mutex_};
  if (ended()) return callbacks;
  error_ = std::move(error);
  message_ = message;
  callbacks.swap(callbacks_);
  state_.store(state, std::memory_order_release);
  return callbacks;
}

void Operation::end(State state, std::exception_ptr error, std::optional<MessageInfo> message) {
  const auto self = shared_from_this();  // a callback may drop the last handle
  const CallingBack amid_a_call;
  for (Callback& callback : set_end(state, std::move(error), message)) callback(*this);
}

std::vector<Operation::Callback> Operation::settle(std::exception_ptr error,
                                                   std::optional<MessageInfo> message) {
  const State state = error ? State::failed : State::completed;
  return set_end(state, std::move(error), message);
}

}  // namespace capstan
