// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "tests/conformance/world.hpp"

namespace capstan::conformance {

/// The arguments of start_read() for memory of another rank.
struct Remote {
  std::uint64_t address = 0, key = 0;
};

/// Each rank tells the others what it has exposed.
inline std::vector<Remote> exchange_exposed(const Member& member, const ExposedMemory& exposed) {
  const Remote own{exposed.address(), exposed.key()};
  const auto bytes = std::as_bytes(std::span{&own, 1});
  std::vector<Remote> all;
  for (const Address& one : member.exchange({bytes.begin(), bytes.end()}))
    std::memcpy(&all.emplace_back(), one.data(), sizeof(Remote));
  return all;
}

inline void await_end(Transport& transport, const RemoteRead& read) {
  wait_until(
      [&] {
        transport.progress();
        return !read.under_way();
      },
      "the end of a read");
}

/// Meets the other ranks. Meanwhile their reads are answered, as providers without a card do that
/// in progress().
inline void meet_and_answer(const Member& member, Transport& transport) {
  std::atomic<bool> met = false;
  const std::jthread waits{[&] {
    member.meet();
    met = true;
  }};
  while (!met) transport.progress();
}

}  // namespace capstan::conformance
