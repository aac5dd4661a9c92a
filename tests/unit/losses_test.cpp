// SPDX-License-Identifier: Apache-2.0

// The time at which the error about peers that are gone may be formed.

#include "core/engine/run/losses.hpp"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using namespace std::chrono_literals;

const Losses::Time begin{1h};

TEST(Losses, AreCompleteWhenNoOtherPeerHasEndedForAWhile) {
  Losses losses;
  EXPECT_FALSE(losses.are_complete(1, true, begin));
  EXPECT_FALSE(losses.are_complete(1, true, begin + 99ms));
  EXPECT_TRUE(losses.are_complete(1, true, begin + 100ms));
}

TEST(Losses, WaitAnewAfterEachDeath) {
  Losses losses;
  EXPECT_FALSE(losses.are_complete(1, true, begin));
  EXPECT_FALSE(losses.are_complete(2, true, begin + 80ms));
  EXPECT_FALSE(losses.are_complete(2, true, begin + 179ms));
  EXPECT_TRUE(losses.are_complete(2, true, begin + 180ms));
}

TEST(Losses, WaitForPeersOfWhomNothingIsKnown) {
  Losses losses;
  EXPECT_FALSE(losses.are_complete(1, false, begin));
  EXPECT_FALSE(losses.are_complete(1, false, begin + 200ms));
  EXPECT_TRUE(losses.are_complete(1, true, begin + 201ms));
}

TEST(Losses, AreCompleteInTheEnd) {
  Losses losses;
  std::size_t gone = 1;
  auto now = begin;
  for (; !losses.are_complete(gone, false, now); now += 10ms) ++gone;
  EXPECT_EQ(now - begin, Losses::longest);
}

TEST(Losses, AreForgotten) {
  Losses losses;
  EXPECT_FALSE(losses.are_complete(1, true, begin));
  losses.forget();
  EXPECT_FALSE(losses.are_complete(1, true, begin + 1s));
  EXPECT_TRUE(losses.are_complete(1, true, begin + 1100ms));
}

}  // namespace
}  // namespace capstan
