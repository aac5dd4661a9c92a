#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "capstan/communicator.hpp"
#include "core/api/checked_call.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"
#include "core/engine/staging.hpp"
#include "core/engine/task.hpp"
#include "core/world/world.hpp"

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

  /// A blocking call that has been made before: programs repeat themselves.
  struct Known {
    Request request{};
    const void* input = nullptr;
    void* output = nullptr;
    const Plan* plan = nullptr;  ///< as long as the engine's plans are of this age; null: not known
    std::uint64_t plans_age = 0;
  };
  /// Null: not known. The last one is looked at first, as what follows need not wait then until it
  /// is clear where to look.
  const Known* known(const Request& request) {
    return last_->request == request ? last_ : known_elsewhere(request);
  }
  /// In the place of one that was made before.
  void remember(Known call) {
    last_ = &place_of(call.request);
    *last_ = std::move(call);
  }

 private:
  static constexpr int place_bits = 6;

  [[gnu::noinline]] const Known* known_elsewhere(const Request& request) {
    Known& other = place_of(request);
    return other.request == request ? last_ = &other : nullptr;
  }

  Known& place_of(const Request& request) {
    const std::uint64_t count = request.input_count.value() + request.output_count.value();
    const auto mixed = reinterpret_cast<std::uintptr_t>(request.input) ^
                       std::rotl(reinterpret_cast<std::uintptr_t>(request.output), 20) ^
                       std::rotl(count << 8 | static_cast<std::uint64_t>(request.collective), 44);
    return known_[mixed * 0x9e37'79b9'7f4a'7c15 >> (64 - place_bits)];
  }

  std::array<Known, 1 << place_bits> known_;
  Known* last_ = &known_.front();
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
