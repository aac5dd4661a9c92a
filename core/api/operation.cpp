#include "capstan/operation.hpp"

namespace capstan {

void Operation::when_ended(Callback callback) {
  {
    const std::lock_guard lock{mutex_};
    if (!ended()) return callbacks_.push_back(std::move(callback));
  }
  callback(*this);
}

void Operation::end(State state, std::exception_ptr error, std::optional<MessageInfo> message) {
  const auto self = shared_from_this();  // a callback may drop the last handle
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock{mutex_};
    if (ended()) return;
    error_ = std::move(error);
    message_ = message;
    callbacks.swap(callbacks_);
    state_.store(state, std::memory_order_release);
  }
  for (Callback& callback : callbacks) callback(*this);
}

}  // namespace capstan
