#pragma once

#include <optional>

#include "core/communicator.hpp"
#include "core/runtime/task.hpp"

namespace capstan {

struct Communicator::Prepared {
  std::optional<Task> ask{};  ///< goes first
  Task main{};
  Operation::Output output{};  ///< the caller's
};

}  // namespace capstan
