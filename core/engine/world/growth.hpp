// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/meeting.hpp"
#include "core/bootstrap/store/store.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {

// The parts that members and new ranks share while a communicator grows.

/// A store whose waits end early where there is no hope any more: they call `look` now and then,
/// which may throw.
class WatchedStore final : public JobStore {
 public:
  WatchedStore(JobStore& store, std::function<void()> look)
      : store_(store), look_(std::move(look)) {}

  void put(std::string_view key, std::span<const std::byte> value) override {
    store_.put(key, value);
  }
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override {
    return store_.try_get(key);
  }
  const Secret& secret() const override { return store_.secret(); }

 private:
  JobStore& store_;
  const std::function<void()> look_;
};

/// How long members and new ranks wait for each other, at each step.
Deadline growth_deadline(const Settings& settings);

/// Tells all that meet in the store that there will be no communicator, unless they know. Does
/// nothing where the store is gone.
void report_failure(Store& store, const std::string& why) noexcept;
/// Throws BootstrapError where a rank has reported a failure, or has left.
void require_hope(Store& store);

/// Tells new ranks that the members have got their communicator.
void report_success(Store& store);
/// A new rank waits for what the members say. Throws BootstrapError where they have none.
void await_outcome(JobStore& store, int rank, Deadline deadline);
/// Waits until all new ranks that are here have read it.
void await_readers(Store& store, const Growth& growth, Deadline deadline) noexcept;

}  // namespace capstan
