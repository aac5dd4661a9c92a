#pragma once

#include <optional>

#include "core/communicator.hpp"
#include "core/runtime/checked_call.hpp"
#include "core/runtime/engine.hpp"
#include "core/runtime/progress.hpp"
#include "core/runtime/task.hpp"
#include "core/runtime/world.hpp"

// What the parts of Communicator share.

namespace capstan {

class Communicator::Impl {
 public:
  explicit Impl(Member owned) : member(std::move(owned)), engine(*member.engine) {}
  Member member;
  Engine& engine;

  struct Last {
    Request request;
    CheckedCall checked;
  };
  std::optional<Last> last{};  ///< blocking call, for the next one is often the same
};

struct Communicator::Prepared {
  std::optional<Task> ask{};  ///< goes first
  Task main{};
  Operation::Output output{};  ///< the caller's
};

}  // namespace capstan
