// SPDX-License-Identifier: Apache-2.0

// Agreements: the collective calls that carry them out, and what comes out of any exchange.

#include "core/engine/run/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using ::testing::ElementsAre;

/// An exchange with peers whose answers are fixed bytes.
class FakeExchange final : public Exchange {
 public:
  FakeExchange(Rank self, ByRank<std::vector<std::uint8_t>> answers)
      : self_(self), answers_(std::move(answers)) {}

  int ranks() const override { return answers_.size(); }
  void run(const Agreement& agreement, const void* answer, void* result) override {
    subjects.emplace_back(agreement.subject);
    const std::size_t size = agreement.answer_bytes().value();
    answers_[self_].assign(static_cast<const std::uint8_t*>(answer),
                           static_cast<const std::uint8_t*>(answer) + size);
    auto* const to = static_cast<std::uint8_t*>(result);
    if (agreement.combine == Combine::least) std::fill_n(to, size, std::uint8_t{0xff});
    for (int rank = 0; rank < ranks(); ++rank)
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint8_t theirs = answers_[Rank{rank}].at(i);
        if (agreement.combine == Combine::all)
          to[static_cast<std::size_t>(rank) * size + i] = theirs;
        else
          to[i] = std::min(to[i], theirs);
      }
  }

  std::vector<std::string> subjects;

 private:
  const Rank self_;
  ByRank<std::vector<std::uint8_t>> answers_;
};

TEST(Agreement, IsOneSmallCollective) {
  const Agreement least{.count = 3, .purpose = Purpose::visibility};
  EXPECT_EQ(to_string(Call{least.call()}),
            "all_reduce(3 x u8, min), asking first what buffers all ranks have");
  EXPECT_EQ(least.call().purpose, Purpose::visibility);
  EXPECT_EQ(least.result_bytes(5), Bytes{3});

  const Agreement greatest{.combine = Combine::greatest, .type = DataType::f64, .count = 2};
  EXPECT_EQ(to_string(greatest.call()), "all_reduce(2 x f64, max)");
  EXPECT_EQ(greatest.answer_bytes(), Bytes{16});

  const Agreement all{.combine = Combine::all, .type = DataType::u64, .count = 4};
  EXPECT_EQ(to_string(all.call()), "all_gather(4 x u64)");
  EXPECT_EQ(all.result_bytes(5), Bytes{5 * 32});
}

TEST(Agreement, SaysWhichCallItComesBefore) {
  const auto about = std::make_shared<const Call>(Call{.shape = {.count = Elements{7}}});
  const Agreement first{.about = about}, second{.about = about};
  EXPECT_EQ(first.call(), second.call());
  EXPECT_NE(first.call(), Agreement{}.call());
}

TEST(Agreement, HoldsEverywhereOnlyIfEveryRankSaysSo) {
  const auto holds = [](bool own, std::uint8_t second, std::uint8_t third) {
    FakeExchange exchange{Rank{0}, {{0}, {second}, {third}}};
    const bool all = holds_everywhere(exchange, own, "reading");
    EXPECT_THAT(exchange.subjects, ElementsAre("reading"));
    return all;
  };
  EXPECT_TRUE(holds(true, 1, 1));
  EXPECT_FALSE(holds(false, 1, 1));
  EXPECT_FALSE(holds(true, 1, 0));
}

TEST(Agreement, GathersAnswersInTheOrderOfRanks) {
  FakeExchange exchange{Rank{1}, {{3, 0}, {0, 0}, {5, 1}}};
  const ByRank<std::uint16_t> all = gather_answers(exchange, std::uint16_t{4}, "position");
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[Rank{0}], 3);
  EXPECT_EQ(all[Rank{1}], 4);
  EXPECT_EQ(all[Rank{2}], 0x105);
}

}  // namespace
}  // namespace capstan
