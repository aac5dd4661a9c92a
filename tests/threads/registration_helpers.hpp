// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/platform/memory/registration/registration_cache.hpp"

namespace capstan::testing_memory {

constexpr std::uint64_t page = 4096;

inline const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

/// Registers nothing, but keeps a list in which each registration has a number of its own.
class FakeRegistrar : public Registrar {
 public:
  MemoryKeys register_memory(AddressRange range) override {
    if (refusals > 0) {
      --refusals;
      throw LimitReached("the fake device refuses");
    }
    if (impossible.overlaps(range)) throw InvalidArgument("the fake device cannot have it");
    EXPECT_EQ(range.begin % page, 0U);
    EXPECT_EQ(range.end % page, 0U);
    live.emplace(++last, range);
    bytes += range.size();
    return {nullptr, last, last};
  }
  void deregister_memory(const MemoryKeys& keys) noexcept override {
    const auto found = live.find(keys.local);
    if (found == live.end()) {
      ADD_FAILURE() << "registration " << keys.local << " is deregistered twice";
      return;
    }
    bytes -= found->second.size();
    live.erase(found);
  }

  std::map<std::uint64_t, AddressRange> live;
  std::uint64_t last = 0;
  Bytes bytes{};
  int refusals = 0;
  AddressRange impossible{};
};

/// A monitor whose log the test writes.
class FakeMonitor : public MappingMonitor {
 public:
  bool active() const override { return true; }
  const std::string& description() const override { return description_; }
  bool watch(AddressRange pages) override {
    if (unwatchable && unwatchable->overlaps(pages)) return false;
    watched.push_back(pages);
    return true;
  }
  void unwatch(AddressRange pages) override {
    const auto found = std::ranges::find(watched, pages);
    ASSERT_NE(found, watched.end()) << "what is not watched is unwatched";
    watched.erase(found);
  }
  std::uint64_t log_end() const override { return log_.size(); }
  bool read_log(std::uint64_t& position,
                const std::function<void(AddressRange)>& changed) override {
    while (position < log_.size()) changed(log_[position++]);
    return !std::exchange(lost, false);
  }

  void change(AddressRange pages) { log_.push_back(pages); }

  std::vector<AddressRange> watched;
  std::optional<AddressRange> unwatchable;
  bool lost = false;  ///< the next reader learns that it has missed something

 private:
  std::string description_ = "a fake";
  std::deque<AddressRange> log_;
};

}  // namespace capstan::testing_memory
