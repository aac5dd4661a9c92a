#pragma once

#include <optional>

#include "core/communicator.hpp"
#include "core/runtime/checked_call.hpp"
#include "core/runtime/engine.hpp"
#include "core/runtime/progress.hpp"
#include "core/runtime/staging.hpp"
#include "core/runtime/task.hpp"
#include "core/runtime/world.hpp"

// What the parts of Communicator share.

namespace capstan {

class Communicator::Impl {
 public:
  explicit Impl(Member owned, std::shared_ptr<Staging> pinned = nullptr)
      : member(std::move(owned)), engine(*member.engine), staging(std::move(pinned)) {
    if (!staging)
      staging =
          std::make_shared<Staging>(engine.settings().pinned_memory, engine.settings().timeout);
    look_for_devices();
  }
  Member member;
  Engine& engine;
  std::shared_ptr<Staging> staging;

  struct Last {
    Request request;
    CheckedCall checked;
    const Plan* plan = nullptr;  ///< as long as the engine's plans are of this age; null: not known
    std::uint64_t plans_age = 0;
  };
  std::optional<Last> last{};  ///< blocking call, for the next one is often the same
};

struct Communicator::Prepared {
  std::optional<Task> ask{};  ///< goes first
  Task main{};
  Operation::Output output{};  ///< the caller's

  /// Reads what lies on devices. What it throws concerns this rank only: nothing has been started.
  void pack_at_start() {
    if (!main.packs_at_start) return;
    main.pack();
    main.pack = nullptr;
  }
};

}  // namespace capstan
