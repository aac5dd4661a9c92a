// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capstan/operation.hpp"
#include "core/engine/messages/messages.hpp"

namespace capstan {

class Engine;

/// Messages that are started together: the operation ends with the last of them, and fails with the
/// first failure. It holds their transfers, so that a message costs one allocation.
class MessagesOperation : public Operation {
 public:
  MessagesOperation(std::shared_ptr<Driver> driver, std::optional<Output> output,
                    std::size_t messages)
      : Operation(std::move(driver), {}, output),
        has_one_(messages == 1),
        several_(has_one_ ? 0 : messages),
        left_(messages) {}

  std::span<Messages::MessageTransfer> transfers() {
    return has_one_ ? std::span{&single_, 1} : std::span{several_};
  }
  /// To one of these transfers: the operation lives as long as it is under way.
  Messages::TransferPointer pointer_to(Messages::MessageTransfer& transfer) {
    return {shared_from_this(), &transfer};
  }

 private:
  friend class Engine;

  const bool has_one_;  // most operations do
  Messages::MessageTransfer single_{};
  std::vector<Messages::MessageTransfer> several_;
  // Under the lock of the engine that has started it.
  const Engine* engine_ = nullptr;  // null: detached, too
  std::size_t left_;                // that have not ended
  std::exception_ptr failed_{};
};

}  // namespace capstan
