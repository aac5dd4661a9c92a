// SPDX-License-Identifier: Apache-2.0

// The verifier must refuse what is wrong, and say what it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "capstan/error.hpp"
#include "core/schedule/lowering/verify.hpp"
#include "core/schedule/proof/prove.hpp"
#include "tests/proofs/builds.hpp"

namespace capstan {
namespace {

using namespace proof;  // NOLINT: the subject of this file

using ::testing::HasSubstr;

constexpr Elements count{8};

/// Schedules of `ranks` ranks, written by `write(builder, group)`.
ByRank<Schedule> build(int ranks,
                       const std::function<void(ScheduleBuilder&, const Group&)>& write) {
  ByRank<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank) {
    const Group group = Group::world(ranks, Rank{rank});
    ScheduleBuilder s{group, count, count};
    write(s, group);
    schedules.push_back(std::move(s).build());
  }
  return schedules;
}

Result result_of(int ranks, const std::function<void(ScheduleBuilder&, const Group&)>& write,
                 const ProofOptions& options = {}) {
  return prove_schedules(Collective::all_reduce, {.count = count}, build(ranks, write), options);
}

bool has(const Result& result, Flaw flaw) {
  return std::ranges::any_of(result.findings, [&](const auto& f) { return f.flaw == flaw; });
}

std::string text(const Result& result) {
  std::string all;
  for (const auto& finding : result.findings) all += finding.message + "\n";
  return all;
}

/// A right exchange between two ranks, to be spoilt.
struct Exchange {
  bool wait = true, signal = true, complete = true, twice = false, add_own = true, swap = false;

  void operator()(ScheduleBuilder& s, const Group& group) const {
    const Span landing = s.scratch(count);
    const Range whole{Elements{0}, count}, half{Elements{0}, count / 2}, rest{count / 2, count / 2};
    s.put(group.right(), landing, s.input());
    if (signal) s.signal(group.right());
    if (wait) s.wait(group.left());
    std::vector<Span> sources{landing.part(whole)};
    if (add_own) sources.push_back(s.input());
    if (twice) sources.push_back(s.input());
    if (swap) {
      const Span first[] = {landing.part(half), s.input(rest)},
                 second[] = {landing.part(rest), s.input(half)};
      s.complete(s.output(half), first);
      s.complete(s.output(rest), second);
    } else if (complete) {
      s.complete(s.output(), sources);
    } else {
      s.reduce(s.output(), sources);
    }
  }
};

TEST(Sabotage, TheUnspoiltExchangeIsProven) {
  const auto result = result_of(2, Exchange{});
  EXPECT_TRUE(result.ok()) << text(result);
}

TEST(Sabotage, ADroppedWait) {
  const auto result = result_of(2, Exchange{.wait = false});
  EXPECT_TRUE(has(result, Flaw::uninitialized)) << text(result);
  EXPECT_THAT(text(result),
              HasSubstr("reads element 0 of rank 0 scratch, which nobody has written"));
}

TEST(Sabotage, ADroppedSignal) {
  const auto result = result_of(2, Exchange{.signal = false});
  EXPECT_TRUE(has(result, Flaw::deadlock)) << text(result);
  EXPECT_THAT(text(result), HasSubstr("rank 0 waits for ever at step 1 (wait rank 1)"));
}

TEST(Sabotage, ASwappedBlock) {
  EXPECT_TRUE(has(result_of(2, Exchange{.swap = true}), Flaw::misplaced));
}

TEST(Sabotage, ADoubleAdd) {
  EXPECT_TRUE(has(result_of(2, Exchange{.twice = true}), Flaw::doubled));
}

TEST(Sabotage, AMissingAdd) {
  const auto result = result_of(2, Exchange{.add_own = false});
  EXPECT_TRUE(has(result, Flaw::missing)) << text(result);
  EXPECT_THAT(text(result), HasSubstr("not all contributions"));
}

TEST(Sabotage, AForgottenComplete) {
  EXPECT_TRUE(has(result_of(2, Exchange{.complete = false}), Flaw::unfinished));
}

TEST(Sabotage, ACompletedScan) {
  const auto scan = [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(count);
    if (group.position() == 0) {
      s.send(group.right(), landing, s.input());
      s.copy(s.output(), s.input());
    } else {
      s.wait(group.left());
      const Span sources[] = {landing, s.input()};
      s.complete(s.output(), sources);
    }
  };
  const auto result =
      prove_schedules(Collective::scan, {.count = count}, build(2, scan), {.synchronizes = false});
  EXPECT_TRUE(has(result, Flaw::overdone)) << text(result);
}

TEST(Sabotage, AnOutputThatShallStayAsItIs) {
  for (const bool in_place : {false, true}) {
    const auto exscan = [](ScheduleBuilder& s, const Group& group) {
      const Span landing = s.scratch(count);
      s.send(group.right(), landing, s.input());
      s.wait(group.left());
      s.copy(s.output(), landing);
    };
    const auto result = prove_schedules(Collective::exscan, {.count = count}, build(2, exscan),
                                        {.in_place = in_place, .synchronizes = false});
    EXPECT_TRUE(has(result, Flaw::misplaced));
    EXPECT_THAT(text(result), HasSubstr("rank 0 output[0] of block 0 holds something where"));
  }
}

TEST(Sabotage, ACyclicWait) {
  const auto result = result_of(3, [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(count);
    s.wait(group.left());
    s.send(group.right(), landing, s.input());
    s.complete(s.output(), landing);
  });
  for (const char* rank : {"rank 0 waits", "rank 1 waits", "rank 2 waits"})
    EXPECT_THAT(text(result), HasSubstr(rank));
}

TEST(Sabotage, AReusedLandingSlot) {
  const auto result = result_of(3, [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(count);  // one for two senders
    for (int d = 1; d < 3; ++d) s.send(group.right(d), landing, s.input());
    s.copy(s.output(), s.input());
    for (int d = 1; d < 3; ++d) {
      s.wait(group.left(d));
      s.reduce(s.output(), landing);
    }
  });
  EXPECT_TRUE(has(result, Flaw::race)) << text(result);
  EXPECT_THAT(text(result), HasSubstr("overwrites what is being"));
}

TEST(Sabotage, APutIntoAnOutputWhoseOwnerMayNotHaveEntered) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    if (group.position() == 0) {
      s.send(group.right(), s.output(), s.input());
      s.copy(s.output(), s.input());
    } else {
      s.wait(group.left());
    }
  });
  EXPECT_TRUE(has(result, Flaw::race));
  EXPECT_THAT(text(result), HasSubstr("may land before rank 1 has entered the call"));
}

TEST(Sabotage, ASenderThatRunsAheadOfItsReaderAcrossCalls) {
  // One way only: nothing tells rank 0 that rank 1 has read what it sent two calls ago.
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(count);
    if (group.position() == 0) {
      s.send(group.right(), landing, s.input());
      s.copy(s.output(), s.input());
    } else {
      s.wait(group.left());
      s.copy(s.output(), landing);
    }
  });
  EXPECT_TRUE(has(result, Flaw::race)) << text(result);
}

TEST(Sabotage, APutThatNobodyIsToldOf) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    Exchange{}(s, group);
    s.put(group.right(), s.scratch(count), s.input());
  });
  EXPECT_TRUE(has(result, Flaw::imbalance));
  EXPECT_THAT(text(result), HasSubstr("is followed by no signal"));
}

TEST(Sabotage, ASignalTooMany) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    Exchange{}(s, group);
    if (group.position() == 0) s.signal(group.right());
  });
  EXPECT_FALSE(result.ok());
}

TEST(Sabotage, AWriteToTheInput) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    Exchange{}(s, group);
    s.copy(s.input(), s.output());
  });
  EXPECT_TRUE(has(result, Flaw::input_written));
}

TEST(Sabotage, AddingToACompleteElement) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    Exchange{}(s, group);
    s.reduce(s.output(), s.input());
  });
  EXPECT_TRUE(has(result, Flaw::reduced_twice));
}

TEST(Sabotage, RanksWithDifferentScratch) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    if (group.position() == 1) s.scratch(Elements{4});
    Exchange{}(s, group);
  });
  EXPECT_TRUE(has(result, Flaw::extents));
}

TEST(Sabotage, AWriteOutsideARangeIsRefusedByTheBuilder) {
  ScheduleBuilder s{Group::world(2, Rank{0}), count, count};
  EXPECT_THROW(s.copy(s.output({Elements{5}, Elements{4}}), s.input({Elements{0}, Elements{4}})),
               InvalidArgument);
  EXPECT_THROW(s.copy(s.output(), s.input({Elements{0}, Elements{4}})), InvalidArgument);
  EXPECT_THROW(s.put(Rank{0}, s.output(), s.input()), InvalidArgument);
}

TEST(Sabotage, AWriteOutsideThePeersScratch) {
  const auto result = result_of(2, [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(group.position() == 0 ? count : count / 2);
    if (group.position() == 0) s.send(group.right(), landing, s.input());
    if (group.position() == 1) s.wait(group.left());
    s.copy(s.output(), s.input());
  });
  EXPECT_TRUE(has(result, Flaw::out_of_range)) << text(result);
}

TEST(Sabotage, AStreamNeedsThreeSlots) {
  const auto schedules =
      schedules_of(algorithm_named(Collective::all_reduce, "direct"), 3, Elements{9});
  const auto two = prove_schedules(Collective::all_reduce, {.count = Elements{9}}, schedules,
                                   {.calls = 1, .slots = 1, .blocks = 6});
  EXPECT_TRUE(has(two, Flaw::race)) << text(two);
}

/// A rank that only sends runs ahead of those that only listen.
ByRank<Schedule> one_way() {
  return build(2, [](ScheduleBuilder& s, const Group& group) {
    const Span landing = s.scratch(count);
    if (group.position() == 0) s.send(group.right(), landing, s.input());
    if (group.position() == 1) s.wait(group.left());
    s.copy(s.output(), group.position() == 0 ? s.input() : landing);
  });
}

TEST(Sabotage, SlotsThatAreNotAcquiredAreOverrun) {
  const Shape shape{.count = count};
  EXPECT_TRUE(
      prove_schedules(Collective::broadcast, shape, one_way(), {.synchronizes = false}).ok());
  const auto overrun = prove_schedules(Collective::broadcast, shape, one_way());
  EXPECT_TRUE(has(overrun, Flaw::race)) << text(overrun);
}

/// In place, a flat all-reduce overwrites its input while peers may be reading it.
TEST(Sabotage, AnInputThatIsOverwrittenWhileItIsRead) {
  const Shape shape{.count = Elements{5}};
  const LoweredCall all_reduce{&algorithm_named(Collective::all_reduce, "flat"),
                               Protocol::read_input, shape};
  const LoweredCall all_to_all{&algorithm_named(Collective::all_to_all, "direct"),
                               Protocol::read_input, shape};
  for (const LoweredCall& call : {all_reduce, all_to_all}) {
    EXPECT_TRUE(prove_programs({call, call}, 3).ok());
    const auto result = prove_programs({call, call}, 3, {.in_place = true});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.findings.front().flaw, Flaw::race);
  }
}

/// A reader of a peer's input has to signal when the read is over.
TEST(Sabotage, AnInputThatIsReadAfterItsOwnerHasReturned) {
  struct OneInput : proof::Layout {
    Elements extent(const proof::Memory&) const override { return Elements{4}; }
  } layout;
  using proof::Effect;
  const proof::Piece input{{proof::Memory::Kind::input, Rank{0}}},
      output{{proof::Memory::Kind::output, Rank{1}}};
  const Effect enter{.kind = Effect::Kind::enter}, leave{.kind = Effect::Kind::leave};
  const Effect tell{.kind = Effect::Kind::signal, .peer = Rank{1}},
      answer{.kind = Effect::Kind::signal, .peer = Rank{0}},
      hear{.kind = Effect::Kind::wait, .peer = Rank{0}},
      heard{.kind = Effect::Kind::wait, .peer = Rank{1}};
  const Effect read{.length = Elements{4}, .destinations = {output}, .sources = {input}};

  proof::Budget budget;
  proof::Machine right{
      {{enter, tell, heard, leave}, {enter, hear, read, answer, leave}}, layout, budget};
  right.run();
  EXPECT_TRUE(right.findings().empty());
  proof::Machine early{{{enter, tell, leave}, {enter, hear, read, leave}}, layout, budget};
  early.run();
  ASSERT_FALSE(early.findings().empty());
  EXPECT_THAT(early.findings().front().message, HasSubstr("has returned from the call"));
  proof::Machine unasked{{{enter, heard, leave}, {enter, read, answer, leave}}, layout, budget};
  unasked.run();
  ASSERT_FALSE(unasked.findings().empty());
  EXPECT_EQ(unasked.findings().front().flaw, Flaw::race);
}

/// Writes to a peer's output come after the peer has entered, and before it returns.
TEST(Sabotage, AnOutputThatIsWrittenTooEarlyOrTooLate) {
  const auto result_without = [](std::optional<int> phase_of_waits) {
    const LoweredCall call{&algorithm_named(Collective::all_reduce, "direct"),
                           Protocol::write_output,
                           {.count = count}};
    const auto change = [&](BoundProgram& program) {
      erase_ops(program, [&](const BoundOp& op) {
        return op.code == OpCode::wait && program.source.ops[op.source_op].phase == phase_of_waits;
      });
    };
    return prove_programs({call, call}, 3, {.in_place = true, .change_program = change});
  };
  EXPECT_TRUE(result_without({}).ok()) << text(result_without({}));
  EXPECT_THAT(text(result_without(1)), HasSubstr("has entered the call"));
  EXPECT_THAT(text(result_without(2)), HasSubstr("has returned from the call"));
}

TEST(Sabotage, AFalsePromiseToSynchronize) {
  const auto result =
      prove_schedules(Collective::broadcast, {.count = count}, one_way(), {.calls = 1});
  EXPECT_TRUE(has(result, Flaw::unsynchronized)) << text(result);
  EXPECT_THAT(text(result), HasSubstr("rank 0 may return from call 0 before rank 1 has entered"));
}

TEST(Sabotage, AFalsePromiseToKeepTheOrder) {
  // Exchange adds what has arrived first, whichever rank it came from.
  const auto result = result_of(2, Exchange{}, {.claims = {.ordered = true}});
  EXPECT_TRUE(has(result, Flaw::out_of_order)) << text(result);
}

}  // namespace
}  // namespace capstan
