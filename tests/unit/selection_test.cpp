// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/schedule/selection/predictor.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/schedule/selection/selector.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytes, ReadsUnits) {
  EXPECT_EQ(parse_bytes("0"), Bytes{0});
  EXPECT_EQ(parse_bytes("64"), Bytes{64});
  EXPECT_EQ(parse_bytes("4k"), Bytes{4096});
  EXPECT_EQ(parse_bytes("2M"), Bytes{2 << 20});
  EXPECT_EQ(parse_bytes("3g"), Bytes{std::uint64_t{3} << 30});
  for (const char* bad :
       {"", "k", "-1", "4kb", "1.5k", " 4", "4t", "99999999999999999999", "inf4", "99999999999g"})
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
}

TEST(AlgorithmRules, ChooseBySize) {
  const auto rules = AlgorithmRules::parse("all_reduce:0-4k:flat,4k-1m:rabenseifner,1m-inf:ring");
  const auto name = [&](std::uint64_t bytes) {
    return rules.find({.bytes = Bytes{bytes}})->algorithm->name;
  };
  EXPECT_EQ(name(0), "flat");
  EXPECT_EQ(name(4095), "flat");
  EXPECT_EQ(name(4096), "rabenseifner");
  EXPECT_EQ(name(1 << 20), "ring");
  EXPECT_EQ(name(std::uint64_t{1} << 50), "ring");
}

TEST(AlgorithmRules, AGapIsLeftToTheSelector) {
  const auto rules = AlgorithmRules::parse("all_reduce:1k-2k:ring");
  EXPECT_EQ(rules.find({.bytes = Bytes{1023}}), nullptr);
  EXPECT_EQ(AlgorithmRules::parse("").find({.bytes = Bytes{8}}), nullptr);
}

TEST(AlgorithmRules, BadRulesAreExplained) {
  for (const char* bad : {"ring", "all_reduce", "all_gather:quantum", "gather_all:ring",
                          "all_reduce:4k:ring", "all_reduce:4k-1k:ring", "all_reduce:a-b:ring",
                          "all_reduce:", "all_reduce:ring;", "all_reduce:0-inf:"})
    EXPECT_THROW(AlgorithmRules::parse(bad), InvalidArgument) << bad;
  try {
    AlgorithmRules::parse("all_reduce:4k:ring");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("all_reduce:0-4k:flat"));
  }
}

/// The last one would count, without a word.
TEST(AlgorithmRules, ConditionsThatStandTwiceAreRefused) {
  for (const auto& [rule, named] :
       {std::pair{"all_reduce:0-4k 4k-1m:flat", "'4k-1m' in column 17"},
        {"all_reduce:ranks=2 hosts=1 ranks=3:flat", "'ranks=3' in column 28"},
        {"all_reduce:0-4k hosts=1 hosts=1:flat", "on hosts already"},
        {"all_reduce:type=f32 type=f64:flat", "on type already"},
        {"all_reduce:flat,memory=host memory=device:ring", "on memory already"}}) {
    try {
      AlgorithmRules::parse(rule);
      ADD_FAILURE() << rule;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  }
}

TEST(LinkModel, TakesCachesFromTheMachine) {
  const auto time = [](const char* machine) {
    const Machine other = Machine::from_synthetic(machine);
    const MachineView view{.reads_peers = true, .cached_buffers = cached_buffers(other, 2)};
    const LinkModel model = link_model(view, Settings{});
    const Call call{.shape = {.count = Elements{1 << 18}}};  // 2 MiB in and out of a rank
    return Predictor{algorithm_named(Collective::all_reduce, "direct"), 2, call, model}
        .predict(Protocol::read_input)
        .total();
  };
  EXPECT_GT(time("package:1 l3:1(size=8MB) l2:2(size=1MB) core:1 pu:1"),
            time("package:1 l3:2(size=32MB) l2:1(size=1MB) core:1 pu:1"));
}

TEST(Selector, ARuleWins) {
  const auto rules = AlgorithmRules::parse("all_reduce:ring");
  const Choice choice = choose({.shape = {.count = Elements{2}}}, 4, rules);
  EXPECT_EQ(choice.algorithm->name, "ring");
  EXPECT_THAT(choice.reason, HasSubstr("rule"));
}

TEST(Segments, AreSmall) {
  const auto bytes = [](int ranks, Bytes chunk) {
    return segment_layout(Hosts{ranks}, {.chunk = chunk}, {}).total();
  };
  EXPECT_LT(bytes(4, Bytes{256 << 10}), Bytes{10 << 20});
  EXPECT_LT(bytes(4, Bytes{16 << 10}), Bytes{5 << 20}) << "as the user wants it";
  EXPECT_LT(bytes(1, Bytes{256 << 10}), Bytes{128 << 10}) << "nothing to stage";
}

TEST(Selector, ARuleMaySayHowDataTravel) {
  const Call call{.collective = Collective::all_gather, .shape = {.count = Elements{100'000}}};
  const LinkModel readable{.reads_peers = true};
  const auto protocol_by = [&](const char* rule, const LinkModel& model) {
    return choose(call, 4, AlgorithmRules::parse(rule), SumOrder::any, model).protocol;
  };
  EXPECT_EQ(protocol_by("all_gather:direct/staged", readable), Protocol::staged);
  EXPECT_EQ(protocol_by("all_gather:0-inf:direct/read_input", readable), Protocol::read_input);
  EXPECT_EQ(protocol_by("all_gather:direct/read_input", {}), Protocol::staged)
      << "not possible here";
  EXPECT_THROW(AlgorithmRules::parse("all_gather:direct/magic"), InvalidArgument);
}

TEST(Selector, LongMessagesAreReadInPlaceWhereThatIsPossible) {
  const Call call{.collective = Collective::all_to_all, .shape = {.count = Elements{100'000}}};
  EXPECT_EQ(choose(call, 4, {}, SumOrder::any, {.reads_peers = true}).protocol,
            Protocol::read_input);
  EXPECT_EQ(choose(call, 4, {}, SumOrder::any, {}).protocol, Protocol::staged);
}

double predicted(Call call, PeerMappedBuffers seen, int ranks) {
  call.peer_mapped = seen;
  return choose(call, ranks, {}, SumOrder::any, {.reads_peers = true}).nanoseconds;
}

TEST(Selector, InHugePagesReadersOfOneBufferHinderEachOtherLess) {
  const Call call{.collective = Collective::broadcast, .shape = {.count = Elements{1'000'000}}};
  const auto reading = [&](bool huge_pages) {
    return choose(call, 4, AlgorithmRules::parse("broadcast:flat/read_input"), SumOrder::any,
                  {.reads_peers = true, .huge_pages = huge_pages});
  };
  EXPECT_EQ(reading(true).protocol, Protocol::read_input);
  EXPECT_LT(reading(true).nanoseconds, reading(false).nanoseconds * 0.6);
}

TEST(Selector, WhereRanksShareCoresFewWaitAndTheKernelCopiesNothing) {
  const LinkModel alone{.reads_peers = true}, shared{.reads_peers = true, .shares_cores = true};
  const auto chosen = [](const Call& call, const LinkModel& model) {
    return choose(call, 8, {}, SumOrder::any, model);
  };
  const Call barrier{.collective = Collective::barrier};
  EXPECT_EQ(chosen(barrier, alone).algorithm->name, "dissemination");
  EXPECT_EQ(chosen(barrier, shared).algorithm->name, "flat");
  Call exchange{.collective = Collective::all_to_all, .shape = {.count = Elements{100'000}}};
  EXPECT_TRUE(reads_buffers(chosen(exchange, alone).protocol));
  EXPECT_EQ(chosen(exchange, shared).protocol, Protocol::staged);
  exchange.peer_mapped = PeerMappedBuffers::all;
  EXPECT_TRUE(reads_buffers(chosen(exchange, shared).protocol)) << "no kernel is needed";
}

/// All ranks copy all blocks: one core takes twice as long as two; four are as good as none shared.
TEST(Selector, RanksThatShareACoreCopyOneAfterTheOther) {
  const Call gather{.collective = Collective::all_gather, .shape = {.count = Elements{100'000}}};
  LinkModel model;
  model.time_slice = 0;
  const auto time = [&] {
    const auto rules = AlgorithmRules::parse("all_gather:direct/staged");
    return choose(gather, 4, rules, SumOrder::any, model).nanoseconds;
  };
  const double alone = time();
  model.shares_cores = true;
  const auto on = [&](double cores) { return model.cores = cores, time(); };
  EXPECT_NEAR(on(1) / on(2), 2, 0.01);
  EXPECT_LT(on(4), on(2));
  EXPECT_DOUBLE_EQ(on(4), alone);
}

/// Mapped buffers never cost more than reads by the kernel, and less where such reads are chosen.
TEST(Selector, PeerMappedBuffersNeverCostMore) {
  for (const Collective collective : all_collectives()) {
    if (has_counts(collective) || collective == Collective::barrier) continue;
    bool saves = false;
    for (const std::uint64_t count : {2, 1'000, 10'000, 100'000, 1'000'000, 10'000'000})
      for (const int ranks : {2, 4, 20}) {
        const Call call{.collective = collective, .shape = {.count = Elements{count}}};
        const double plain = predicted(call, PeerMappedBuffers::none, ranks),
                     inputs = predicted(call, PeerMappedBuffers::inputs, ranks),
                     all = predicted(call, PeerMappedBuffers::all, ranks);
        EXPECT_LE(inputs, plain) << name_of(collective) << ", " << count;
        EXPECT_LE(all, inputs) << name_of(collective) << ", " << count;
        saves = saves || all < plain;
      }
    EXPECT_TRUE(saves) << name_of(collective);
  }
}

TEST(Selector, PeerMappedBuffersAreReadWhereOthersAreStaged) {
  const LinkModel readable{.reads_peers = true};
  const auto form_of = [&](std::uint64_t count, PeerMappedBuffers seen, const LinkModel& model) {
    const Call call{.shape = {.count = Elements{count}}, .peer_mapped = seen};
    return choose(call, 4, {}, SumOrder::any, model).protocol;
  };
  int differ = 0;
  for (std::uint64_t count = 1'000; count < 1'000'000; count *= 2) {
    const Protocol seen = form_of(count, PeerMappedBuffers::all, readable);
    differ +=
        reads_buffers(seen) && !reads_buffers(form_of(count, PeerMappedBuffers::none, readable));
    EXPECT_FALSE(reads_buffers(form_of(count, PeerMappedBuffers::all, {})))
        << "no memory can be read";
  }
  EXPECT_GT(differ, 0);
}

TEST(CallMark, TellsWhatACallIsFor) {
  Call call{.shape = {.count = Elements{1000}}};
  const CallMark plain = mark_of(call, {});
  Call question{.type = DataType::u8, .op = ReduceOp::min, .shape = {.count = Elements{1}}};
  question.purpose = Purpose::visibility;
  question.about = std::make_shared<const Call>(call);
  EXPECT_EQ(to_string(mark_of(question, {})),
            "all_reduce(1000 x f32, sum), asking first what buffers all ranks have");
  EXPECT_NE(mark_of(question, {}), plain);
  question.purpose = Purpose::decision;
  EXPECT_EQ(to_string(mark_of(question, {})),
            "all_reduce(1000 x f32, sum), agreeing first on the fastest way");
  call.peer_mapped = PeerMappedBuffers::all;
  EXPECT_NE(mark_of(call, {}), plain);
  EXPECT_EQ(to_string(call), "all_reduce(1000 x f32, sum)");
  EXPECT_EQ(to_string(mark_of({.purpose = Purpose::allocate}, {})), "allocate()");
}

/// Elements that travel as bytes are not the same for that.
TEST(CallMark, TellsForeignTypesApart) {
  const Call bytes{
      .collective = Collective::all_gather, .type = DataType::u8, .shape = {.count = Elements{8}}};
  std::vector<CallMark> marks{mark_of(bytes, {})};
  for (const ForeignType foreign : {ForeignType::boolean(), ForeignType::of_bytes(1),
                                    ForeignType::of_bytes(2), ForeignType::of_bytes(126)}) {
    Call call = bytes;
    call.foreign = foreign;
    const CallMark mark = mark_of(call, {});
    for (const CallMark& other : marks) EXPECT_NE(mark.digest(), other.digest());
    marks.push_back(mark);
    ASSERT_TRUE(call_of(mark));
    EXPECT_EQ(call_of(mark)->type, DataType::u8);
    EXPECT_EQ(call_of(mark)->foreign, foreign);
  }
  EXPECT_THAT(to_string(marks[1]), HasSubstr("8 x u8 (booleans)"));
  EXPECT_THAT(to_string(marks[3]), HasSubstr("8 x u8 (elements of 2 bytes)"));
  EXPECT_THAT(to_string(marks[4]), HasSubstr("8 x u8 (elements of 126 bytes or more)"));
  EXPECT_EQ(ForeignType::of_bytes(1000), ForeignType::of_bytes(126));
}

/// Long ones are told apart, but not written out.
TEST(CallMark, NamesTheShapesOfTensors) {
  const auto text = [](std::vector<std::int64_t> shape) {
    return to_string({.shape = {.count = Elements{6}}, .tensor = std::move(shape)});
  };
  EXPECT_EQ(text({}), "all_reduce(6 x f32, sum)");
  EXPECT_EQ(text({2, 3}), "all_reduce(6 x f32, sum, tensor [2, 3])");
  EXPECT_EQ(text({1, 2, 0, 32766}), "all_reduce(6 x f32, sum, tensor [1, 2, 0, 32766])");
  EXPECT_EQ(text({32767}).find("tensor ["), std::string::npos);
  EXPECT_NE(text({32767}), text({32768}));
  EXPECT_NE(text({1, 1, 1, 1, 6}), text({1, 1, 1, 6, 1}));
}

TEST(Selector, CallsOfAboutTheSameSizeShareAChoice) {
  const auto count_of = [](std::uint64_t n) {
    return typical({.shape = {.count = Elements{n}, .root = 3}}).shape.count.value();
  };
  EXPECT_EQ(count_of(0), 0u);
  EXPECT_EQ(count_of(7), 7u);
  EXPECT_EQ(count_of(1000), 1024u);
  EXPECT_EQ(count_of(1025), 1280u);
  for (std::uint64_t n = 1; n < 100'000; n = n * 3 / 2 + 1) EXPECT_GE(count_of(n), n);
}

TEST(Selector, TinyMessagesTravelInPacketsAndLargeOnesDoNot) {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    EXPECT_EQ(choose({.shape = {.count = Elements{2}}}, ranks, {}).protocol,
              Protocol::inline_packets)
        << ranks;
    const Choice large = choose({.shape = {.count = Elements{16 << 20}}}, ranks, {});
    EXPECT_EQ(large.protocol, Protocol::staged) << ranks;
    EXPECT_EQ(large.algorithm->name, "direct") << ranks;
  }
}

Hosts hosts_of(int hosts, int each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * each; ++rank) host_of.push_back(rank / each);
  return Hosts{std::move(host_of)};
}

std::string all_reduce_over(const Hosts& hosts, std::uint64_t bytes) {
  return std::string{choose({.shape = {.count = Elements{bytes / 4}}}, hosts, {}).algorithm->name};
}

TEST(Selector, BetweenTwoRanksOneMessageIsCheaperThanHalfAsMuchTwice) {
  for (const std::uint64_t bytes : {8, 1 << 10, 32 << 10, 128 << 10})
    EXPECT_EQ(all_reduce_over(hosts_of(2, 1), bytes), "flat") << bytes;
}

TEST(Selector, BetweenHostsLongMessagesCrossOnceAndShortOnesInFewMessages) {
  for (const Hosts& hosts : {hosts_of(2, 2), hosts_of(2, 4), hosts_of(4, 2)}) {
    EXPECT_EQ(all_reduce_over(hosts, 1 << 20), "two_level");
    EXPECT_NE(all_reduce_over(hosts, 8), "flat");
    EXPECT_NE(all_reduce_over(hosts, 8), "direct");
  }
  const Call reduce_scatter{.collective = Collective::reduce_scatter,
                            .shape = {.count = Elements{8 << 10}}};
  EXPECT_EQ(choose(reduce_scatter, hosts_of(2, 2), {}).algorithm->name, "two_level");
}

/// There are too many to be simulated.
TEST(Selector, AmongManyRanksOnSeveralHostsStepsThatCrossTheNetworkAreCounted) {
  const Hosts hosts = hosts_of(8, 16);
  // Three exchanges between hosts, or one with seven others: both are within a quarter of the best
  // that a simulation finds.
  EXPECT_THAT(all_reduce_over(hosts, 8), ::testing::AnyOf("recursive_doubling", "leaders"));
  EXPECT_EQ(all_reduce_over(hosts, 16 << 20), "two_level");
  const Hosts many = hosts_of(1024, 4);  // a message to each would take longer than a few steps
  EXPECT_EQ(all_reduce_over(many, 8), "recursive_doubling");
  EXPECT_EQ(all_reduce_over(many, 64 << 10), "rabenseifner");
  const Call broadcast{.collective = Collective::broadcast, .shape = {.count = Elements{4 << 20}}};
  EXPECT_NE(choose(broadcast, hosts_of(1024, 1), {}).algorithm->name, "chain")
      << "its last rank waits for the first block";
  const Choice in_order = choose({.shape = {.count = Elements{9}}}, hosts, {}, SumOrder::ranks);
  EXPECT_TRUE(in_order.algorithm->guarantees.ordered);
}

/// A program that calls a few times does not pay for pages that are not huge yet.
TEST(Selector, LongCallsBeginWithWhatIsFastInSmallPages) {
  LinkModel model;
  model.reads_peers = model.huge_pages = true;
  const Call call = typical({.shape = {.count = Elements{16 << 20}}});
  EXPECT_TRUE(reads_buffers(choose(call, 2, {}, SumOrder::any, model).protocol));
  const auto candidates = tuning_candidates(call, 2, model, Bytes{1 << 20});
  EXPECT_EQ(candidates.front().protocol, Protocol::staged);
  EXPECT_TRUE(std::ranges::any_of(
      candidates, [](const Choice& choice) { return reads_buffers(choice.protocol); }));
}

/// The kinds of calls that have a first choice, on 2 to 16 ranks.
template <class Check>
void for_each_first_choice(const LinkModel& model, Check check) {
  int kinds = 0;
  for (const int ranks : {2, 3, 4, 8, 16})
    for (const Collective collective : all_collectives())
      for (const std::uint64_t bytes : {8U, 64U, 512U, 4096U, 32'768U, 100'000U}) {
        Call call{.collective = collective, .type = DataType::f32};
        if (has_counts(collective)) continue;
        if (collective != Collective::barrier)
          call.shape.count =
              Elements{std::max<std::uint64_t>(bytes / 4 / static_cast<unsigned>(ranks), 1)};
        call = typical(call);
        const auto first = first_choice(call, ranks, model);
        if (!first) continue;
        ++kinds;
        SCOPED_TRACE(fmt::format("{} of {} on {}", name_of(collective), bytes, ranks));
        check(call, Hosts{ranks}, *first);
      }
  EXPECT_GT(kinds, 100);
}

/// Results do not depend on how many calls came before: the choice for the first calls gives the
/// same bits as those that are measured. Where peers hinder each other more than on the modelled
/// machine, other algorithms would be the fastest.
TEST(Selector, FirstChoicesGiveTheSameResultsAsLaterOnes) {
  LinkModel modelled, other;
  modelled.reads_peers = modelled.huge_pages = true;
  other.contention = other.buffer_contention = 50;
  other.next_source = other.polled_packet = 5000;
  for (const LinkModel& model : {modelled, other})
    for_each_first_choice(model, [&](const Call& call, const Hosts& hosts, const Choice& first) {
      EXPECT_THAT(first.reason, HasSubstr("first calls"));
      for (const Choice& later : tuning_candidates(call, hosts, model, Bytes{1 << 20}))
        EXPECT_TRUE(agree(*first.algorithm, *later.algorithm, call)) << later.algorithm->name;
      EXPECT_TRUE(
          agree(*first.algorithm, *choose(call, hosts, {}, SumOrder::any, model).algorithm, call));
    });
  const Call long_call{.shape = {.count = Elements{1 << 20}}};
  EXPECT_FALSE(first_choice(long_call, Hosts{4}, modelled)) << "simulation takes less";
}

TEST(Selector, KeepsToTheLimitsOfAlgorithms) {
  const Choice choice = choose({.shape = {.count = Elements{1000}}}, 1000, {});
  EXPECT_GE(choice.algorithm->max_ranks, 1000);
  EXPECT_THROW(choose({.shape = {.count = Elements{1}}}, 1 << 21, {}), InvalidArgument);
}

}  // namespace
}  // namespace capstan
