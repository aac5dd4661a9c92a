// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/conformance/worlds.hpp"

namespace capstan::conformance {

/// Ranks with faults over the thread or loopback transports. One thread runs them all, so that
/// calls of progress() can be counted. A failing test prints its faults, so that it can be
/// repeated.
class Ranks {
 public:
  static constexpr Bytes segment_size{1 << 16};

  explicit Ranks(const FaultPlan& plan, int ranks = 2, bool loopback = false,
                 Bytes segment = segment_size)
      : trace_(__FILE__, __LINE__, "faults: " + plan.to_string()) {
    const Bytes whole = FaultyTransport::inner_segment(segment, ranks);
    Transports inner =
        loopback ? make_loopback_transports(ranks, whole) : make_thread_transports(ranks, whole);
    for (int rank = 0; rank < ranks; ++rank) {
      auto& own = inner[static_cast<std::size_t>(rank)];
      all_.push_back(
          std::make_unique<FaultyTransport>(std::move(own), Rank{rank}, ranks, segment, plan));
    }
    all_ = connected(std::move(all_));
  }

  Transport& operator[](int rank) { return *all_[static_cast<std::size_t>(rank)]; }
  void leave(int rank) { all_[static_cast<std::size_t>(rank)].reset(); }

  /// Publishes a word at an offset of the sender's segment.
  void send(int from, int to, std::uint64_t place, std::uint64_t value) {
    std::memcpy((*this)[from].segment().data() + place * 8, &value, sizeof value);
    (*this)[from].push(Rank{to}, Bytes{place * 8}, Bytes{8});
    wake(from, to);
  }
  void wake(int from, int to) { (*this)[from].wake((*this)[from].link(Rank{to})); }
  std::uint64_t seen(int at, int from, std::uint64_t place) {
    std::uint64_t value = 0;
    std::memcpy(&value, (*this)[at].link(Rank{from}).segment + place * 8, sizeof value);
    return value;
  }
  /// Calls progress() of a rank until it sees the word of the peer. Returns the number of calls.
  int calls_until_seen(int at, int from, std::uint64_t place, std::uint64_t value) {
    for (int calls = 1; calls < 100'000; ++calls) {
      (*this)[at].progress();
      if (seen(at, from, place) == value) return calls;
    }
    ADD_FAILURE() << "never seen: " << value;
    return -1;
  }

 private:
  testing::ScopedTrace trace_;
  Transports all_;
};

}  // namespace capstan::conformance
