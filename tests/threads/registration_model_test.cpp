// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <vector>

#include "core/platform/memory/registration/range_counts.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "tests/threads/registration_helpers.hpp"

// The cache against a model of it that is too simple to be wrong: a list of registrations in order
// of use, searched from end to end. Memory is 24 pages; each has an age that grows when it changes.

namespace capstan {
namespace {

using namespace testing_memory;

constexpr std::uintptr_t base = 0x10'0000;
constexpr int pages = 24;
constexpr AddressRange unwatchable{base + 20 * page, base + 24 * page};
constexpr RegistrationCache::Limits limits{Bytes{12 * page}, 4};

struct Step {
  enum Kind { acquire, release, change, invalidate, lose_log } kind;
  int first, count;  ///< pages; for release, which lease
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  constexpr const char* names[] = {"acquire", "release", "change", "invalidate", "lose"};
  return out << names[step.kind] << ' ' << step.first << '+' << step.count;
}

AddressRange range_of(const Step& step) {
  const auto begin = base + static_cast<std::uintptr_t>(step.first) * page;
  return {begin,
          std::min(begin + static_cast<std::uintptr_t>(step.count) * page, base + pages * page)};
}

class Model {
 public:
  struct Registration {
    AddressRange range;
    int leases = 0;
    bool found = true;  ///< may serve others
  };
  using Registrations = std::list<Registration>;  ///< the one used longest ago first

  /// The registration of a new lease; null if the limit forbids it.
  Registration* acquire(AddressRange wanted) {
    for (auto& one : all_)
      if (one.found && one.range.contains(wanted)) return use(one);
    Registration fresh{joined(wanted)};
    fresh.found = !fresh.range.overlaps(unwatchable);
    if (!fresh.found) fresh.range = wanted;
    if (fresh.found) drop([&](auto& one) { return one.range.overlaps(fresh.range); });
    if (sum(true) + fresh.range.size() > limits.bytes || count(true) >= limits.count)
      return nullptr;
    while (sum(false) + fresh.range.size() > limits.bytes || count(false) >= limits.count)
      all_.erase(std::ranges::find(all_, 0, &Registration::leases));
    return use(all_.emplace_back(fresh));
  }

  void release(Registration* one) {
    if (--one->leases > 0) return;
    const auto place = std::ranges::find_if(all_, [&](auto& each) { return &each == one; });
    if (one->found) {
      all_.splice(all_.end(), all_, place);
    } else {
      all_.erase(place);
    }
  }

  /// Registrations for which `gone` holds are not found any more.
  template <class Predicate>
  void drop(Predicate gone) {
    for (auto& one : all_)
      if (one.found && gone(one)) one.found = false;
    std::erase_if(all_, [](const auto& one) { return !one.found && one.leases == 0; });
  }

  Bytes sum(bool in_use) const {
    Bytes bytes{};
    for (const auto& one : all_)
      if (!in_use || one.leases > 0) bytes += one.range.size();
    return bytes;
  }
  std::size_t count(bool in_use) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(all_, [&](const auto& one) { return !in_use || one.leases > 0; }));
  }
  std::vector<AddressRange> ranges() const {
    std::vector<AddressRange> found;
    for (const auto& one : all_) found.push_back(one.range);
    std::ranges::sort(found, {}, [](auto range) { return std::pair{range.begin, range.end}; });
    return found;
  }

 private:
  Registration* use(Registration& one) { return ++one.leases, &one; }

  AddressRange joined(AddressRange wanted) const {
    AddressRange joint = wanted;
    for (const auto& one : all_)
      if (one.found && one.range.overlaps(wanted))
        joint = {std::min(joint.begin, one.range.begin), std::max(joint.end, one.range.end)};
    return sum(true) + joint.size() <= limits.bytes ? joint : wanted;
  }

  Registrations all_;
};

/// Remembers how old the pages were when they were registered.
class AgingRegistrar : public FakeRegistrar {
 public:
  MemoryKeys register_memory(AddressRange range) override {
    const MemoryKeys keys = FakeRegistrar::register_memory(range);
    seen[keys.local] = ages;
    return keys;
  }
  bool fresh(const RegistrationCache::Lease& lease, AddressRange wanted) const {
    const auto& then = seen.at(lease.keys().local);
    for (auto i = (wanted.begin - base) / page; i < (wanted.end - base) / page; ++i)
      if (then[i] != ages[i]) return false;
    return true;
  }

  std::array<int, pages> ages{};
  std::map<std::uint64_t, std::array<int, pages>> seen;
};

class Trial {
 public:
  void run(const Step& step) {
    const AddressRange range = range_of(step);
    switch (step.kind) {
      case Step::acquire:
        return acquire(range);
      case Step::release:
        return release(static_cast<std::size_t>(step.first));
      case Step::change:
        for (auto i = (range.begin - base) / page; i < (range.end - base) / page; ++i)
          ++registrar_.ages[i];
        monitor_->change(range);
        model_.drop([&](auto& one) { return one.range.overlaps(range); });
        return touch(range);
      case Step::invalidate:
        cache_.invalidate(range.data(), range.size());
        return model_.drop([&](auto& one) { return one.range.overlaps(range); });
      case Step::lose_log:
        for (int& age : registrar_.ages) ++age;
        monitor_->lost = true;
        model_.drop([](auto&) { return true; });
        touch(range);
        monitor_->lost = false;  // an empty cache does not read the log
        return;
    }
  }

  void compare() {
    std::vector<AddressRange> live;
    for (const auto& [number, range] : registrar_.live) live.push_back(range);
    std::ranges::sort(live, {}, [](auto range) { return std::pair{range.begin, range.end}; });
    RC_ASSERT(live == model_.ranges());
    RC_ASSERT(cache_.statistics().bytes == registrar_.bytes);
    RC_ASSERT(cache_.statistics().count == registrar_.live.size());
    RC_ASSERT(registrar_.bytes <= limits.bytes);
    RC_ASSERT(registrar_.live.size() <= limits.count);
  }

  void finish() {
    while (!leases_.empty()) release(0);
    cache_.invalidate(at(base), Bytes{pages * page});
    RC_ASSERT(registrar_.live.empty());
    RC_ASSERT(monitor_->watched.empty());
  }

 private:
  struct Pair {
    RegistrationCache::Lease lease;
    Model::Registration* expected;
  };

  void acquire(AddressRange wanted) {
    Model::Registration* expected = model_.acquire(wanted);
    try {
      auto lease = cache_.acquire(wanted.data(), wanted.size());
      RC_ASSERT(expected != nullptr);
      RC_ASSERT(lease.range() == expected->range);
      RC_ASSERT(registrar_.fresh(lease, wanted));
      leases_.push_back({std::move(lease), expected});
    } catch (const LimitReached&) {
      RC_ASSERT(expected == nullptr);
    }
  }

  /// Makes the cache read the log.
  void touch(AddressRange range) {
    const std::size_t before = leases_.size();
    acquire(range);
    if (leases_.size() > before) release(before);
  }

  void release(std::size_t which) {
    if (leases_.empty()) return;
    const auto place = leases_.begin() + static_cast<std::ptrdiff_t>(which % leases_.size());
    model_.release(place->expected);
    leases_.erase(place);
  }

  AgingRegistrar registrar_;
  std::shared_ptr<FakeMonitor> monitor_ = [] {
    auto monitor = std::make_shared<FakeMonitor>();
    monitor->unwatchable = unwatchable;
    return monitor;
  }();
  RegistrationCache cache_{registrar_, limits, monitor_};
  Model model_;
  std::vector<Pair> leases_;
};

rc::Gen<Step> any_step() {
  return rc::gen::build<Step>(
      rc::gen::set(&Step::kind, rc::gen::weightedElement<Step::Kind>({{10, Step::acquire},
                                                                      {6, Step::release},
                                                                      {3, Step::change},
                                                                      {1, Step::invalidate},
                                                                      {1, Step::lose_log}})),
      rc::gen::set(&Step::first, rc::gen::inRange(0, pages)),
      rc::gen::set(&Step::count, rc::gen::inRange(1, 7)));
}

TEST(RegistrationModel, TheCacheDoesWhatTheModelDoes) {
  EXPECT_TRUE(rc::check("any sequence of calls", [] {
    const auto steps = *rc::gen::scale(3, rc::gen::container<std::vector<Step>>(any_step()));
    Trial trial;
    for (const Step& step : steps) {
      trial.run(step);
      trial.compare();
    }
    trial.finish();
  }));
}

/// Adds ranges and takes them back, in a RangeCounts and in an array of counters.
TEST(RangeCounts, CountsLikeAnArray) {
  EXPECT_TRUE(rc::check("any sequence of ranges", [] {
    RangeCounts counts;
    std::array<int, 64> expected{};
    std::vector<AddressRange> added;
    const auto position = rc::gen::inRange<std::uintptr_t>(0, 40);
    const auto length = rc::gen::inRange<std::uintptr_t>(0, 24);  // 0: take one back
    const auto steps = *rc::gen::container<std::vector<std::pair<std::uintptr_t, std::uintptr_t>>>(
        rc::gen::pair(position, length));
    for (const auto& [first, many] : steps) {
      std::uint64_t visited = 0, changed = 0;
      const auto visit = [&](AddressRange part) { visited += part.size().value(); };
      if (many > 0) {
        added.push_back({first, first + many});
        counts.add(added.back());
        for (auto i = first; i < first + many; ++i) ++expected[i];
      } else if (!added.empty()) {
        const auto which = added.begin() + static_cast<std::ptrdiff_t>(first % added.size());
        counts.remove(*which, visit);
        for (auto i = which->begin; i < which->end; ++i) changed += --expected[i] == 0 ? 1U : 0U;
        added.erase(which);
      }
      RC_ASSERT(visited == changed);
      RC_ASSERT(counts.total().value() ==
                expected.size() - static_cast<std::size_t>(std::ranges::count(expected, 0)));
    }
  }));
}

}  // namespace
}  // namespace capstan
