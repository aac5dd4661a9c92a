// SPDX-License-Identifier: Apache-2.0

// The candidates for calls of a kind, that they give the same sums, and their plans.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "core/schedule/selection/selector.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/variants_of.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr LinkModel readable{.reads_peers = true};
constexpr Bytes block{1 << 20}, all_in_one{1 << 30};

Call call_of(Collective collective, std::uint64_t count, DataType type = DataType::f32) {
  return {.collective = collective, .type = type, .shape = {.count = Elements{count}}};
}

TEST(Rivals, BeginWithTheChoiceAndGoOnByPrediction) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::broadcast, Collective::all_to_all}) {
    const Call call = call_of(collective, 100'000);
    const auto found = tuning_candidates(call, 4, readable, all_in_one);
    const Choice choice = choose(call, 4, {}, SumOrder::any, readable);
    ASSERT_GT(found.size(), 1U) << name_of(collective);
    EXPECT_EQ(found.front().algorithm, choice.algorithm);
    EXPECT_EQ(found.front().protocol, choice.protocol);
    std::set<std::pair<std::string_view, Protocol>> different;
    for (const Choice& candidate : found) {
      EXPECT_LE(candidate.nanoseconds, 16 * choice.nanoseconds);
      EXPECT_EQ(candidate.times_shorter, 1U);
      different.insert({candidate.algorithm->name, candidate.protocol});
    }
    EXPECT_EQ(different.size(), found.size());
    EXPECT_TRUE(std::ranges::is_sorted(std::span{found}.subspan(1), {}, &Choice::nanoseconds));
  }
}

TEST(Rivals, AreOfDifferentProtocols) {
  for (const std::uint64_t count : {20'000, 2'000'000}) {
    std::set<Protocol> protocols;
    for (const Choice& candidate :
         tuning_candidates(call_of(Collective::broadcast, count), 2, readable, block))
      protocols.insert(candidate.protocol);
    EXPECT_TRUE(protocols.contains(Protocol::staged) && protocols.contains(Protocol::read_input) &&
                protocols.contains(Protocol::write_output));
  }
}

/// There a tree is a message like any other, and one that is cut in two is no faster.
TEST(Rivals, BetweenTwoRanksNoTwoDoTheSame) {
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto found = tuning_candidates(call_of(collective, 16), 2, readable, block);
    EXPECT_EQ(found.front().algorithm->name, "flat");
    EXPECT_EQ(found.front().protocol, Protocol::inline_packets);
    std::set<std::pair<Protocol, double>> different;
    for (const Choice& candidate : found)
      different.insert({candidate.protocol, candidate.nanoseconds});
    EXPECT_EQ(different.size(), found.size()) << name_of(collective);
  }
}

/// Whether that is faster is to be seen.
TEST(Rivals, MayBeCopiedByTheKernelFromHugePagesWhereRanksShareCores) {
  const auto copied = [](Collective collective, std::uint64_t count, bool huge_pages,
                         int ranks = 8) {
    const LinkModel model{.reads_peers = true, .shares_cores = true, .huge_pages = huge_pages};
    const auto found = tuning_candidates(call_of(collective, count), ranks, model, all_in_one);
    return std::ranges::any_of(found, [](const Choice& c) { return reads_buffers(c.protocol); });
  };
  EXPECT_TRUE(copied(Collective::all_to_all, 100'000, true));
  EXPECT_FALSE(copied(Collective::all_to_all, 100'000, false));
  EXPECT_FALSE(copied(Collective::all_to_all, 1'000, true)) << "too short";
  EXPECT_FALSE(copied(Collective::all_gather, 20'000, true, 16)) << "its inputs are too short";
  const LinkModel model{.reads_peers = true, .shares_cores = true, .huge_pages = true};
  EXPECT_EQ(choose(call_of(Collective::all_to_all, 100'000), 8, {}, SumOrder::any, model).protocol,
            Protocol::staged)
      << "nobody finds out";
}

TEST(Rivals, InShortBlocksComeLast) {
  const auto found =
      tuning_candidates(call_of(Collective::all_reduce, 3'000'000), 4, readable, block);
  const auto staged = std::ranges::find(found, Protocol::staged, &Choice::protocol);
  ASSERT_NE(staged, found.end());
  EXPECT_EQ(std::ranges::count(found, 1U, &Choice::times_shorter) + 1, std::ssize(found));
  EXPECT_EQ(found.back().algorithm, staged->algorithm);
  EXPECT_EQ(found.back().protocol, Protocol::staged);
  EXPECT_EQ(found.back().times_shorter, 4U);
  EXPECT_THAT(found.back().manner(), HasSubstr("staged, in blocks of 1/4"));
}

PlanLimits limits(Bytes cached) {
  return {.block = block, .cached_buffers = cached, .long_read = Bytes{4096}};
}

TEST(Plans, HaveBlocksAsShortAsWanted) {
  const Call call = call_of(Collective::all_reduce, 1 << 20);
  Choice choice = choose(call, 4, AlgorithmRules::parse("all_reduce:direct/staged"));
  const SlotLayout layout{4, Bytes{2 << 20}};
  const auto blocks = [&] {
    return make_plan(call, choice, 4, Rank{0}, limits(Bytes{8 << 20}), layout).blocks;
  };
  EXPECT_EQ(blocks(), 4U);
  choice.times_shorter = 4;
  EXPECT_EQ(blocks(), 16U);
}

TEST(Plans, HaveLongerBlocksForPeersBuffersFarBeyondTheCaches) {
  const Call call = call_of(Collective::all_reduce, 8 << 20);
  const SlotLayout layout{4, Bytes{2 << 20}};
  const auto blocks = [&](const char* protocol, Bytes cached) {
    const auto rules = AlgorithmRules::parse(fmt::format("all_reduce:direct/{}", protocol));
    const Choice choice = choose(call, 4, rules, SumOrder::any, readable);
    return make_plan(call, choice, 4, Rank{0}, limits(cached), layout).blocks;
  };
  constexpr Bytes not_enough{17 << 20}, far_too_little{16 << 20};
  EXPECT_EQ(blocks("write_output", not_enough), 32U);
  EXPECT_EQ(blocks("write_output", far_too_little), 2U);
  EXPECT_EQ(blocks("read_buffers", far_too_little), 2U);
  EXPECT_EQ(blocks("read_input", far_too_little), 32U);  // sums are on staging buffers
  EXPECT_EQ(blocks("staged", far_too_little), 32U);
}

TEST(Plans, NeedNoMoreScratchForLongerBlocks) {
  const SlotLayout layout{4, Bytes{2 << 20}};
  int longer = 0;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      for (const Protocol protocol : {Protocol::read_buffers, Protocol::write_output}) {
        if (!runs_in(algorithm, protocol, 4) || has_counts(collective)) continue;
        const Call call = call_of(collective, 8 << 20);
        const Choice choice{.algorithm = &algorithm, .protocol = protocol};
        const auto plan = [&](Bytes cached) {
          return make_plan(call, choice, 4, Rank{3}, limits(cached), layout);
        };
        const Plan usual = plan(Bytes{1 << 30}), beyond = plan(Bytes{1 << 20});
        EXPECT_EQ(beyond.scratch, usual.scratch) << name_of(collective) << " " << algorithm.name;
        longer += beyond.block_count > usual.block_count;
      }
  EXPECT_GT(longer, 4);
}

/// From where the staging buffers of peers are read, by rank 0: their lines are taken or shared.
std::vector<bool> takes_lines(Collective collective, std::uint64_t count, int ranks) {
  const Call call = call_of(collective, count);
  const Choice choice = choose(
      call, ranks, AlgorithmRules::parse(fmt::format("{}:flat/staged", name_of(collective))));
  const SlotLayout layout{ranks, Bytes{2 << 20}};
  const Plan plan = make_plan(call, choice, ranks, Rank{0}, limits(Bytes{8 << 20}), layout);
  std::vector<bool> found;
  for (const BoundOperand& operand : plan.program(0).operands)
    if (operand.in_staging() && operand.owner != Rank{0})
      found.push_back(operand.base == BoundOperand::writable_alias(operand.owner, ranks));
  return found;
}

TEST(Plans, TakeLinesThatAreReadForLong) {
  using ::testing::AllOf, ::testing::Each, ::testing::IsEmpty;
  EXPECT_THAT(takes_lines(Collective::all_reduce, 1024, 3), AllOf(Not(IsEmpty()), Each(true)));
  EXPECT_THAT(takes_lines(Collective::all_reduce, 1023, 3), AllOf(Not(IsEmpty()), Each(false)));
  EXPECT_THAT(takes_lines(Collective::reduce, 1024, 2), AllOf(Not(IsEmpty()), Each(true)));
  EXPECT_THAT(takes_lines(Collective::reduce, 1024, 3), AllOf(Not(IsEmpty()), Each(false)));
}

TEST(Rivals, GiveTheSameSums) {
  for (const std::uint64_t count : {2'000, 100'000, 3'000'000}) {
    for (const Collective collective : {Collective::all_reduce, Collective::reduce}) {
      const auto found = tuning_candidates(call_of(collective, count), 4, readable, block);
      for (const Choice& candidate : found)
        EXPECT_TRUE(candidate.algorithm == found.front().algorithm ||
                    (candidate.algorithm->guarantees.rank_ordered_sum &&
                     found.front().algorithm->guarantees.rank_ordered_sum))
            << candidate.algorithm->name << " and " << found.front().algorithm->name;
    }
  }
  std::set<std::string_view> exact;
  for (const Choice& candidate :
       tuning_candidates(call_of(Collective::reduce, 2'000, DataType::i32), 4, readable, block))
    exact.insert(candidate.algorithm->name);
  EXPECT_GT(exact.size(), 1U) << "integers do not round";
}

/// Whether there are trials, and whatever they find.
TEST(Rivals, GiveTheSumsOfWhatIsChosen) {
  LinkModel shared = readable;
  shared.shares_cores = shared.huge_pages = true;
  for (const LinkModel& model : {LinkModel{}, readable, shared}) {
    for (const Collective collective :
         {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
      for (std::uint64_t count = 1; count <= std::uint64_t{1} << 26; count *= 4) {
        const Call call = call_of(collective, count);
        const Choice chosen = choose(call, 6, {}, SumOrder::any, model);
        for (const Choice& candidate : tuning_candidates(call, 6, model, block))
          EXPECT_TRUE(candidate.algorithm == chosen.algorithm ||
                      (candidate.algorithm->guarantees.rank_ordered_sum &&
                       chosen.algorithm->guarantees.rank_ordered_sum))
              << to_string(call) << ": " << candidate.algorithm->name << ", chosen is "
              << chosen.algorithm->name;
      }
    }
  }
}

TEST(Chosen, GivesSumsThatOthersGiveToo) {
  const Call floats = call_of(Collective::reduce, 2);
  const Call integers = call_of(Collective::reduce, 2, DataType::i32);
  Call greatest = floats;
  greatest.op = ReduceOp::max;
  const Choice fastest = choose(integers, 4, {}, SumOrder::any, readable);
  const Choice exact = choose(floats, 4, {}, SumOrder::any, readable);
  ASSERT_FALSE(fastest.algorithm->guarantees.rank_ordered_sum) << "nothing has to be given up";
  EXPECT_TRUE(exact.algorithm->guarantees.rank_ordered_sum);
  EXPECT_LE(exact.nanoseconds, 2 * fastest.nanoseconds);
  EXPECT_FALSE(
      choose(floats, 16, {}, SumOrder::any, readable).algorithm->guarantees.rank_ordered_sum)
      << "too slow there";
  EXPECT_FALSE(
      choose(greatest, 4, {}, SumOrder::any, readable).algorithm->guarantees.rank_ordered_sum)
      << "does not round";
  LinkModel shared = readable;
  shared.shares_cores = true;
  shared.cores = 4;  // with fewer, the fastest is exact
  EXPECT_FALSE(choose(floats, 4, {}, SumOrder::any, shared).algorithm->guarantees.rank_ordered_sum)
      << "nothing is tried there";
  EXPECT_THAT(exact.reason, HasSubstr("bitwise reproducible"));
}

TEST(Chosen, LeavesNothingToTheKernelWhereRanksShareCores) {
  LinkModel shared = readable;
  shared.shares_cores = shared.huge_pages = true;
  for (const auto& [collective, rule] : {std::pair{Collective::all_to_all, "all_to_all:direct"},
                                         {Collective::all_gather, "all_gather:direct"},
                                         {Collective::all_reduce, "all_reduce:direct"}}) {
    const Call call = call_of(collective, 1 << 20);
    EXPECT_EQ(choose(call, 8, AlgorithmRules::parse(rule), SumOrder::any, shared).protocol,
              Protocol::staged)
        << rule;
    EXPECT_EQ(choose(call, 8, {}, SumOrder::any, shared).protocol, Protocol::staged) << rule;
  }
}

/// Between -1 and 1.
template <class T>
T number(std::mt19937& random) {
  if constexpr (std::is_same_v<T, Float16>)
    return {static_cast<std::uint16_t>(random() & 0xbbff)};
  else
    return std::uniform_real_distribution<T>{-1, 1}(random);
}

/// Zeros of either sign, and some that are no numbers, of different kinds.
template <class T>
void sprinkle(std::vector<T>& values, int rank) {
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = T{};
  auto* const bytes = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size(); i += 7)
    if (i % 2 == static_cast<std::size_t>(rank) % 2) bytes[(i + 1) * sizeof(T) - 1] = 0x80;
  const auto begin = static_cast<std::size_t>(rank) * 11;
  for (std::size_t i = begin; i < values.size(); i += 101) {
    std::memset(bytes + i * sizeof(T), 0xff, sizeof(T));
    bytes[i * sizeof(T)] = static_cast<unsigned char>(0xf0 + rank);
  }
}

/// Algorithms that promise it give the same bits; others need not.
template <class T>
std::vector<T> sums_by(const std::string& rule, Collective collective,
                       ReduceOp op = ReduceOp::sum) {
  constexpr std::size_t count = 3001;
  Settings settings = bounded_settings();
  settings.algorithm = rule;
  std::vector<T> result(count);
  on_threads(5, settings, [&](Communicator& world) {
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    std::vector<T> input(count), output(count);
    for (T& value : input) value = number<T>(random);
    if (op == ReduceOp::max) sprinkle(input, world.rank());
    if (collective == Collective::all_reduce)
      world.all_reduce(std::span<const T>{input}, std::span{output}, op);
    else
      world.reduce(std::span<const T>{input}, std::span{output}, 0, op);
    if (world.rank() == 0) result = output;
  });
  return result;
}

template <class T>
class OneSum : public ::testing::Test {};
using Floating = ::testing::Types<float, Float16>;
TYPED_TEST_SUITE(OneSum, Floating);

TYPED_TEST(OneSum, GivesTheSameBits) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce}) {
    std::vector<TypeParam> first;
    int compared = 0;
    for (const Algorithm& algorithm : algorithms(collective)) {
      if (!algorithm.guarantees.rank_ordered_sum) continue;
      EXPECT_TRUE(algorithm.guarantees.ordered);
      for (const std::string& variant : variants_of(algorithm)) {
        const auto sums =
            sums_by<TypeParam>(fmt::format("{}:{}", name_of(collective), variant), collective);
        if (first.empty()) first = sums;
        EXPECT_EQ(std::memcmp(sums.data(), first.data(), sums.size() * sizeof(TypeParam)), 0)
            << variant;
        ++compared;
      }
    }
    EXPECT_GE(compared, 5);
  }
}

/// Even where there are zeros of both signs and what is not a number.
TYPED_TEST(OneSum, IsNotNeededForTheGreatest) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce}) {
    std::vector<TypeParam> first;
    for (const Algorithm& algorithm : algorithms(collective)) {
      const auto greatest = sums_by<TypeParam>(
          fmt::format("{}:{}", name_of(collective), algorithm.name), collective, ReduceOp::max);
      if (first.empty()) first = greatest;
      EXPECT_EQ(std::memcmp(greatest.data(), first.data(), first.size() * sizeof(TypeParam)), 0)
          << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace capstan
