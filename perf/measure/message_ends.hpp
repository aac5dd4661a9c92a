// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// Capstan's messages, for run_messages().
class MessageEnds {
 public:
  explicit MessageEnds(Communicator& world) : world_(world) {}

  void send(const std::byte* data, std::size_t bytes, int peer) {
    world_.send(span_of(data, bytes), peer);
  }
  void receive(std::byte* data, std::size_t bytes, int peer) {
    world_.receive(span_of(data, bytes), peer);
  }
  void start_send(const std::byte* data, std::size_t bytes, int peer) {
    under_way_.push_back(world_.start_send(span_of(data, bytes), peer));
  }
  void start_receive(std::byte* data, std::size_t bytes, int peer) {
    under_way_.push_back(world_.start_receive(span_of(data, bytes), peer));
  }
  void wait() {
    for (const Work& work : under_way_) work.wait();
    under_way_.clear();
  }

 private:
  static std::span<const std::uint8_t> span_of(const std::byte* data, std::size_t bytes) {
    return {reinterpret_cast<const std::uint8_t*>(data), bytes};
  }
  static std::span<std::uint8_t> span_of(std::byte* data, std::size_t bytes) {
    return {reinterpret_cast<std::uint8_t*>(data), bytes};
  }

  Communicator& world_;
  std::vector<Work> under_way_;
};

}  // namespace capstan::perf
