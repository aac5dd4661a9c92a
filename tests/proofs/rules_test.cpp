// SPDX-License-Identifier: Apache-2.0

// Rules that the verifier holds schedules to, beyond a right result: what happens to go well on one
// machine may go wrong on another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/schedule/proof/prove.hpp"
#include "tests/proofs/builds.hpp"

namespace capstan {
namespace {

using proof::Flaw;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Elements count{6};
constexpr Range front{Elements{0}, Elements{4}}, back{Elements{2}, Elements{4}};

/// Writes the steps of a group's member; `scratch` is all that it has of it.
using Writer = std::function<void(ScheduleBuilder& s, int position, Rank peer, Span scratch)>;

std::vector<proof::Finding> findings_of(const Writer& write,
                                        const proof::ProofOptions& options = {}) {
  ByRank<Schedule> schedules;
  for (int position = 0; position < 2; ++position) {
    const Group group = Group::world(2, Rank{position});
    ScheduleBuilder s{group, count, count};
    const Span scratch = s.scratch(count);
    write(s, position, group.right(), scratch);
    schedules.push_back(std::move(s).build());
  }
  return proof::prove_schedules(Collective::all_reduce, {.count = count}, schedules, options)
      .findings;
}

/// A right all-reduce of two ranks.
void exchange(ScheduleBuilder& s, Rank peer, Span scratch) {
  s.send(peer, scratch, s.input());
  s.wait(peer);
  const Span sources[] = {scratch, s.input()};
  s.complete(s.output(), sources);
}

auto is(Flaw flaw, const std::string& text) {
  return AllOf(Field(&proof::Finding::flaw, flaw),
               Field(&proof::Finding::message, HasSubstr(text)));
}

TEST(Rules, AnExchangeKeepsThemAll) {
  for (const bool in_place : {false, true})
    EXPECT_THAT(
        findings_of([](auto& s, int, Rank peer, Span scratch) { exchange(s, peer, scratch); },
                    {.in_place = in_place}),
        IsEmpty());
}

TEST(Rules, APutHasToLandBeforeItsTargetReturns) {
  const auto findings = findings_of([](auto& s, int position, Rank peer, Span scratch) {
    exchange(s, peer, scratch);
    if (position == 0) s.signal(peer), s.wait(peer);
    // Too late: the signal that tells of this put is the next call's.
    if (position == 1) s.wait(peer), s.signal(peer), s.put(peer, s.output(), s.output());
  });
  EXPECT_THAT(findings, Contains(is(Flaw::race, "may land after rank 0 has returned")));
}

TEST(Rules, ASignalOfTheSameCallHasToComeBeforeAPutIntoAnOutput) {
  const auto findings = findings_of([](auto& s, int position, Rank peer, Span scratch) {
    if (position == 1) s.send(peer, s.output(), s.input());
    if (position == 0) s.wait(peer);
    exchange(s, peer, scratch);
  });
  EXPECT_THAT(findings, Contains(is(Flaw::race, "may land before rank 0 has entered")));
}

TEST(Rules, AnElementIsCompletedOnce) {
  const auto findings = findings_of([](auto& s, int, Rank peer, Span scratch) {
    exchange(s, peer, scratch);
    const Span sum[] = {s.output()};
    s.complete(s.output(), sum);
  });
  EXPECT_THAT(findings,
              Contains(is(Flaw::reduced_twice, "completes an element that was complete")));
}

TEST(Rules, TheInputStaysAsItIsWhilePeersSendIntoIt) {
  const auto findings = findings_of([](auto& s, int, Rank peer, Span scratch) {
    exchange(s, peer, scratch);
    s.send(peer, s.input(), s.output());
    s.wait(peer);
  });
  EXPECT_THAT(findings, Contains(is(Flaw::input_written, "writes to an input")));
}

TEST(Rules, InPlaceTheOutputIsTheInput) {
  // The copy overwrites what the next step adds.
  const Writer write = [](auto& s, int, Rank peer, Span scratch) {
    s.send(peer, scratch, s.input());
    s.wait(peer);
    s.copy(s.output(), scratch);
    s.complete(s.output(), s.input());
  };
  EXPECT_THAT(findings_of(write), IsEmpty());
  EXPECT_THAT(findings_of(write, {.in_place = true}),
              Contains(is(Flaw::input_written, "which an output has overwritten in place")));
}

TEST(Rules, NobodyReadsScratchThatNobodyHasWritten) {
  const auto findings = findings_of([](auto& s, int, Rank peer, Span scratch) {
    const Span sources[] = {scratch, s.input()};
    s.complete(s.output(), sources);
    s.send(peer, scratch, s.input());
    s.wait(peer);
  });
  EXPECT_THAT(findings, Contains(is(Flaw::uninitialized, "which nobody has written")));
}

TEST(Rules, AStepMayOverwriteOnlyWhatItHasRead) {
  const auto findings = findings_of([](auto& s, int, Rank peer, Span scratch) {
    exchange(s, peer, scratch);
    s.copy(scratch.part(back), scratch.part(front));
  });
  EXPECT_THAT(findings, Contains(is(Flaw::race, "overwrites what it has yet to read")));
}

TEST(Rules, EnoughSlotsKeepARunAwaySenderApart) {
  // The sender learns of this call's reader only in the next call: two slots do, one does not.
  const Writer write = [](auto& s, int, Rank peer, Span scratch) { exchange(s, peer, scratch); };
  EXPECT_THAT(findings_of(write, {.slots = 2}), IsEmpty());
  EXPECT_THAT(findings_of(write, {.slots = 1}), Contains(Field(&proof::Finding::flaw, Flaw::race)));
}

/// Steps over a group are the world's with the ranks renamed, so that what is proven of a world
/// holds for every group.
TEST(Rules, AGroupIsAWorldUnderOtherNames) {
  for (const Algorithm& algorithm : algorithms(Collective::all_reduce))
    for (const int size : {1, 2, 3, 5, 8, 13}) {
      std::vector<Rank> members;
      for (int i = 0; i < size; ++i) members.emplace_back(3 * ((i * 5 + 2) % 14) + 1);
      for (int position = 0; position < size; ++position) {
        const Group group{members, members[static_cast<std::size_t>(position)]};
        const auto named = algorithm.schedule(group, {.count = Elements{11}});
        const auto plain =
            algorithm.schedule(Group::world(size, Rank{position}), {.count = Elements{11}});
        ASSERT_EQ(named.steps().size(), plain.steps().size()) << algorithm.name;
        for (std::size_t i = 0; i < plain.steps().size(); ++i) {
          const Step &a = named.steps()[i], &b = plain.steps()[i];
          EXPECT_EQ(a.verb, b.verb);
          EXPECT_EQ(a.phase, b.phase);
          EXPECT_EQ(a.completes, b.completes);
          EXPECT_EQ(a.destination, b.destination);
          EXPECT_TRUE(std::ranges::equal(named.sources(a), plain.sources(b)));
          if (b.verb != Verb::copy && b.verb != Verb::reduce) {
            EXPECT_EQ(a.peer, group[b.peer.value()]) << algorithm.name << " step " << i;
          }
        }
      }
    }
}

}  // namespace
}  // namespace capstan
