// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

/// How kernels of devices are launched.
namespace capstan::kernels::device {

/// The arguments of a kernel that reduces, as it lays them out.
struct ReduceArguments {
  static constexpr std::uint32_t most_sources = 64, most_destinations = 8;

  std::uint64_t element_count = 0;
  std::uint32_t source_count = 0, destination_count = 0, divisor = 1;
  const void* sources[most_sources] = {};
  void* destinations[most_destinations] = {};
};

inline constexpr unsigned threads_of_block = 256, threads_of_lane = 512;

/// As many blocks as the data keep busy, up to a few times as many as run side by side: memory is
/// busier then (lab notebook, ranks-on-one-gpu). They take their work in turns.
constexpr unsigned blocks_for(std::uint64_t bytes, int multiprocessors) {
  constexpr std::uint64_t of_a_block = 16 << 10, blocks_of_multiprocessor = 16;
  const std::uint64_t wanted = (bytes + of_a_block - 1) / of_a_block;
  const auto most = static_cast<std::uint64_t>(multiprocessors) * blocks_of_multiprocessor;
  return static_cast<unsigned>(std::clamp(wanted, std::uint64_t{1}, most));
}

}  // namespace capstan::kernels::device
