// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/emulation/machine.hpp"

namespace capstan::kernels::device {

struct Grid {
  unsigned blocks = 1, threads = 32;  ///< threads of a block: whole warps
  std::uint64_t seed = 1;
};

template <unsigned warp>
EmulatedMachine<warp> machine_of(const Grid& grid, unsigned index, EmulatedBlock* block) {
  const EmulatedPlace place{index % grid.threads, grid.threads, index / grid.threads, grid.blocks};
  return {place, block, grid.seed * 7919 + index};
}

/// Runs a kernel, each thread of the grid by one of the processor. Returns when all have ended.
template <unsigned warp, class Kernel>
void run(const Grid& grid, const Kernel& kernel) {
  std::vector<std::unique_ptr<EmulatedBlock>> blocks;
  for (unsigned b = 0; b < grid.blocks; ++b)
    blocks.push_back(std::make_unique<EmulatedBlock>(grid.threads, warp));
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < grid.blocks * grid.threads; ++i)
    threads.emplace_back([&, i] {
      const auto machine = machine_of<warp>(grid, i, blocks[i / grid.threads].get());
      kernel(machine);
    });
}

/// Runs a kernel whose threads never meet, one thread of the grid after another, in random order.
template <unsigned warp, class Kernel>
void run_in_turn(const Grid& grid, const Kernel& kernel) {
  std::vector<unsigned> order(grid.blocks * grid.threads);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, std::minstd_rand(static_cast<unsigned>(grid.seed)));
  for (const unsigned index : order) {
    const auto machine = machine_of<warp>(grid, index, nullptr);
    kernel(machine);
  }
}

}  // namespace capstan::kernels::device
