// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/shrinks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace capstan {
namespace {

void die_in(std::chrono::microseconds delay) {
  std::thread{[delay] {
    std::this_thread::sleep_for(delay);
    ::raise(SIGKILL);
  }}.detach();
}

/// Whether the members' sum of their ranks in the world is right; throws PeerLost.
bool sums_right(Communicator& group) {
  int expected = 0, sum = group.world_rank(group.rank());
  for (int rank = 0; rank < group.size(); ++rank) expected += group.world_rank(rank);
  std::vector<int> sums(1000, sum);
  group.all_reduce(std::span{sums});
  return std::ranges::count(sums, expected) == 1000;
}

}  // namespace

int shrink_under_fire(Communicator world, unsigned seed) {
  std::mt19937 random{seed};
  const auto delay = [&](unsigned most) { return std::chrono::microseconds{random() % most}; };
  const int mine = world.rank();
  std::vector<int> order(static_cast<std::size_t>(world.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  Communicator current = std::move(world);
  for (std::size_t dead = 0; dead < 4; dead += 2) {
    const auto in_call = delay(3000), in_agreement = delay(seed % 2 == 0 ? 500 : 5000);
    if (mine == order[dead]) die_in(in_call);
    bool right = true;
    try {
      while (right) right = sums_right(current);
    } catch (const PeerLost&) {
    }
    if (mine == order[dead + 1]) die_in(in_agreement);
    const int left = static_cast<int>(order.size() - dead) - 2;
    while (current.size() != left) {
      const auto began = std::chrono::steady_clock::now();
      current = current.shrink({.minority_continues = true});  // these have certainly died
      fmt::print("shrink took {} ms\n", std::chrono::round<std::chrono::milliseconds>(
                                            std::chrono::steady_clock::now() - began)
                                            .count());
      try {
        while (right && current.size() != left) right = sums_right(current);
      } catch (const PeerLost&) {
      }
    }
    if (!right || !sums_right(current)) return 1;
    fmt::print("{} left\n", left == 4 ? "four" : "two");
    std::fflush(stdout);  // the next may kill this rank
  }
  return 0;
}

}  // namespace capstan
