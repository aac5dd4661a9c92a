// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/platform/device/device_block.hpp"

// The facts that ranks exchange before they run calls in kernels that wait for each other. All
// ranks decide by the same facts, and so alike.

namespace capstan {

/// A text of bounded length, for messages between ranks.
template <std::size_t size>
struct ShortText {
  std::array<char, size> bytes{};

  ShortText() = default;
  explicit ShortText(std::string_view text) {
    std::ranges::copy(text.substr(0, size - 1), bytes.begin());
  }
  std::string_view view() const { return bytes.data(); }
};

/// Collective: what all ranks tell, by rank. Throws what a call of the communicator throws.
template <class T>
  requires std::is_trivially_copyable_v<T>
std::vector<T> exchange(Communicator& ranks, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
  return all;
}

/// A number that only ranks of this process have.
std::uint64_t own_process();
/// Collective: whether no two ranks are in one process.
bool have_processes_of_their_own(Communicator& ranks);

/// The most lanes that a rank has.
inline constexpr int most_lanes = 32;

struct DeviceFacts {
  std::uint64_t host = 0, process = 0;  ///< equal on one host, in one process
  std::uint64_t context = 0;            ///< the address of the context, which a process knows it by
  std::int32_t device = 0;              ///< as the rank's process numbers it
  std::int32_t multiprocessors = 0;
  std::int32_t reserved = 0;           ///< lanes, of the process on this device
  std::int32_t processes_overlap = 0;  ///< 1: kernels of several processes run there side by side
  std::int32_t queues = 0;             ///< hardware queues of the process
  ShortText<160> more_queues{};        ///< how to have more of them
  ShortText<8> vendor{};               ///< "CUDA", "HIP"
  ShortText<32> address{};             ///< "0000:3b:00.0"
  ShortText<200> obstacle{};           ///< why this rank runs nothing on its device; empty: it can
};

/// The facts of this rank. An error becomes the obstacle. `blocks` null: there is an obstacle.
DeviceFacts facts_of(const DeviceBlocks* blocks, std::string_view obstacle);

/// Why these ranks do not run calls on their devices; empty: they can. A pure function.
std::string obstacle_among(std::span<const DeviceFacts> ranks);

/// The lanes of each rank: as many as leave half of each device's multiprocessors to other kernels,
/// at most `most_lanes`. 0: not even one fits. A pure function.
int lanes_for(std::span<const DeviceFacts> ranks);

/// The first obstacle, with its rank; empty if there is none.
template <class Answers>
std::string first_obstacle(const Answers& answers) {
  int rank = 0;
  for (const auto& answer : answers) {
    if (!answer.obstacle.view().empty())
      return "rank " + std::to_string(rank) + ": " + std::string{answer.obstacle.view()};
    ++rank;
  }
  return "";
}

}  // namespace capstan
