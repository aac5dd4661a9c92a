// SPDX-License-Identifier: Apache-2.0

// The log on the processors of a rank.

#include "core/engine/world/binding_note.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::EndsWith;

RankBinding bound(const char* own, const char* all, std::size_t ranks, std::size_t threads) {
  return {.own = CpuSet::parse(own),
          .all = all ? std::optional{CpuSet::parse(all)} : std::nullopt,
          .ranks = ranks,
          .threads = threads,
          .processors = 8};
}

TEST(BindingNote, TellsWhereTheRankRuns) {
  EXPECT_EQ(binding_note(bound("0-7", nullptr, 2, 9)), "CPUs 0-7, not bound");
  EXPECT_EQ(binding_note(bound("2", "2", 1, 9)), "CPUs 2, not bound");
  EXPECT_EQ(binding_note(bound("3", "0-3", 4, 1)), "CPUs 3, bound to 1 of 4 by capstan run");
  EXPECT_EQ(binding_note(bound("3", "0-1,3", 9, 1)), "CPUs 3, bound to 1 of 3 by capstan run");
  EXPECT_EQ(binding_note(bound("4-5", nullptr, 1, 2)), "CPUs 4-5, bound to 2 of 8");
}

TEST(BindingNote, KnowsWhereThreadsAreSlow) {
  EXPECT_TRUE(slows_threads(bound("0", "0-3", 4, 3)));
  EXPECT_FALSE(slows_threads(bound("0", "0-3", 4, 2))) << "one mostly waits";
  EXPECT_FALSE(slows_threads(bound("0", "0", 1, 3))) << "there are no others";
  EXPECT_FALSE(slows_threads(bound("0", nullptr, 4, 3))) << "bound by others";
}

TEST(BindingNote, TellsHowToChangeABindingThatIsTooNarrow) {
  EXPECT_EQ(binding_note(bound("0", "0-3", 2, 1)),
            "CPUs 0, bound to 1 of 4 by capstan run: fewer than its share, 2; capstan run --bind "
            "none binds no rank");
  EXPECT_EQ(binding_note(bound("0", "0-3", 4, 3)),
            "CPUs 0, bound to 1 of 4 by capstan run: fewer than the 3 threads of this program, "
            "which take turns; capstan run --bind none binds no rank");
  EXPECT_EQ(binding_note(bound("0", "0-3", 1, 3)),
            "CPUs 0, bound to 1 of 4 by capstan run: fewer than its share, 4, and than the 3 "
            "threads of this program, which take turns; capstan run --bind none binds no rank");
  EXPECT_THAT(binding_note(bound("4-5", nullptr, 1, 3)),
              EndsWith("take turns; mpirun --bind-to none and srun --cpu-bind=none bind no rank"));
}

}  // namespace
}  // namespace capstan
