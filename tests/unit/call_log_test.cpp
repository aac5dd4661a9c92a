// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/call_log.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "capstan/error.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

constexpr CallMark before{.signature = 1, .count = 10, .root = 2, .tensor = 3};
constexpr CallMark now{.signature = 4, .count = 20, .root = 1, .tensor = 7};

/// The words of a record.
constexpr std::size_t words = 7;
std::array<std::atomic<std::uint64_t>*, words> words_of(CallRecord& record) {
  return {&record.signature, &record.count, &record.root, &record.tensor,
          &record.history,   &record.check, &record.call};
}
std::array<std::uint64_t, words> values_of(CallRecord& record) {
  std::array<std::uint64_t, words> values{};
  for (std::size_t i = 0; i < words; ++i) values[i] = words_of(record)[i]->load();
  return values;
}

/// Two ranks that make calls.
struct Pair {
  void enter(const CallMark& mark) {
    own.begin(mark, mark.digest(), nullptr);
    peer.begin(mark, mark.digest(), nullptr);
  }
  /// The peer's record of a call.
  CallRecord& record(std::uint64_t call) {
    return control_of(world.peers(1).own_segment()).calls[call % CallRecord::history_depth];
  }

  ExecutorWorld world{2};
  CallLog own{world.peers(0)}, peer{world.peers(1)};
};

/// Only some words of the peer's record have arrived, in a place that an earlier call has used.
void compare_with_a_part(unsigned arrived) {
  SCOPED_TRACE(arrived);
  Pair ranks;
  for (std::uint64_t call = 0; call < CallRecord::history_depth; ++call) ranks.enter(before);
  ranks.own.compare(Rank{1});
  CallRecord& record = ranks.record(ranks.own.call() + 1);
  const auto old_values = values_of(record);
  ranks.enter(now);
  for (std::size_t i = 0; i < words; ++i)
    if (!(arrived >> i & 1)) words_of(record)[i]->store(old_values[i]);
  ASSERT_NO_THROW(ranks.own.compare(Rank{1}));
  ASSERT_NO_THROW(ranks.own.compare_all());
}

TEST(CallLog, HalfARecordIsNoMismatch) {
  for (unsigned arrived = 0; arrived < 1U << words; ++arrived) compare_with_a_part(arrived);
}

TEST(CallLog, ARecordIsComparedOnceItsRestHasCome) {
  Pair ranks;
  ranks.own.begin(now, now.digest(), nullptr);
  ranks.peer.begin(before, before.digest(), nullptr);
  std::atomic<std::uint64_t>& check = ranks.record(1).check;
  const std::uint64_t whole = check.exchange(0);
  EXPECT_NO_THROW(ranks.own.compare_all());
  check = whole;
  EXPECT_THROW(ranks.own.compare_all(), Mismatch);
}

/// A network delivers with the next wake, and ranks that wait for each other have no other one.
TEST(CallLog, WhoComparesAllTellsRanksOnOtherHosts) {
  ExecutorWorld world{2, Memory::mirrored};
  CallLog first{world.peers(0)}, second{world.peers(1)};
  first.begin(now, now.digest(), nullptr);
  second.begin(before, before.digest(), nullptr);
  first.compare_all();
  world.peers(1).transport().progress();
  EXPECT_THROW(second.compare_all(), Mismatch);
}

TEST(CallLog, AWholeRecordIsCompared) {
  Pair ranks;
  ranks.enter(before);
  EXPECT_TRUE(ranks.own.agrees(Rank{1}));
  ranks.own.begin(now, now.digest(), nullptr);
  EXPECT_FALSE(ranks.own.agrees(Rank{1}));
  ranks.peer.begin(before, before.digest(), nullptr);
  EXPECT_THROW(ranks.own.compare(Rank{1}), Mismatch);
  EXPECT_THROW(ranks.own.compare_all(), Mismatch);
}

}  // namespace
}  // namespace capstan
