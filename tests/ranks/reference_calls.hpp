// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {

/// Any collective on numbers that differ in each element of each rank and call, compared with what
/// its contract promises.
class ReferenceCalls {
 public:
  /// `seed`: of the numbers and of random delays; the same on all ranks.
  ReferenceCalls(Communicator& world, std::uint64_t seed)
      : world_(world), seed_(seed), delays_(seed * 31 + static_cast<unsigned>(world.rank())) {}

  /// The error of a call; nothing: all is right. Throws what the call throws.
  std::optional<std::string> run(Collective collective, const Shape& shape, bool in_place) {
    const Contract contract{collective, shape, world_.size()};
    const int self = world_.rank();
    const BufferLengths lengths = contract.lengths(self);
    const auto place =
        in_place ? contract.in_place(self) : Contract::Placement{.output = lengths.input + margin};
    const Elements end =
        std::max(place.input + lengths.input, place.output + lengths.output) + margin;
    std::vector<std::uint64_t> memory(end.value(), untouched);
    ++calls_;
    for (Elements i; i < lengths.input; i += Elements{1})
      memory[(place.input + i).value()] = given_by(self, i);
    delay();
    world_.run(request_of(collective, shape, lengths, place, memory));
    auto wrong = difference(contract, place, lengths, memory, in_place);
    std::ranges::fill(memory, scribbled);  // nobody may read or write it any more
    delay();
    return wrong;
  }

 private:
  static constexpr Elements margin{2};  // between the buffers, and after them
  static constexpr std::uint64_t untouched = 0x1111'1111'1111'1111,
                                 scribbled = 0x7777'7777'7777'7777;

  std::uint64_t given_by(int rank, Elements index) const {
    std::uint64_t x = seed_ * 1'000'003 + calls_ * 7919 + static_cast<unsigned>(rank) * 104'729 +
                      index.value() * 0x9e37'79b9'7f4a'7c15;
    x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9;
    return x ^ x >> 27;
  }

  Request request_of(Collective collective, const Shape& shape, const BufferLengths& lengths,
                     const Contract::Placement& place, std::vector<std::uint64_t>& memory) const {
    Request request;
    request.collective = collective;
    request.type = DataType::u64;
    request.input_count = lengths.input;
    request.output_count = lengths.output;
    request.input = memory.data() + place.input.value();
    request.output = memory.data() + place.output.value();
    request.root = shape.root;
    request.counts = shape.counts;
    if (collective == Collective::all_to_all_v) {
      const auto p = static_cast<std::size_t>(world_.size());
      const auto self = static_cast<std::size_t>(world_.rank());
      request.counts.clear();
      for (std::size_t i = 0; i < p; ++i) {
        request.counts.push_back(shape.counts[self * p + i]);
        request.receive_counts.push_back(shape.counts[i * p + self]);
      }
    }
    return request;
  }

  std::optional<std::string> difference(const Contract& contract, const Contract::Placement& place,
                                        const BufferLengths& lengths,
                                        const std::vector<std::uint64_t>& memory,
                                        bool in_place) const {
    for (Elements i; i < lengths.output; i += Elements{1}) {
      const auto promise = contract.promise(world_.rank(), i);
      std::uint64_t expected = 0;
      for (int rank = promise.first; rank <= promise.last; ++rank)
        expected += given_by(rank, promise.index);
      if (promise.last < promise.first)
        expected = in_place ? given_by(world_.rank(), i) : untouched;
      if (memory[(place.output + i).value()] != expected)
        return "element " + std::to_string(i.value()) + " of " +
               std::to_string(lengths.output.value());
    }
    for (std::size_t i = memory.size() - margin.value(); i < memory.size(); ++i)
      if (memory[i] != untouched) return std::string{"what lies behind the buffers"};
    return std::nullopt;
  }

  void delay() {
    if (delays_() % 4 == 0) std::this_thread::yield();
    if (delays_() % 4 != 0) return;
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds{delays_() % 60};
    while (std::chrono::steady_clock::now() < until) {
    }
  }

  Communicator& world_;
  const std::uint64_t seed_;
  std::mt19937_64 delays_;
  std::uint64_t calls_ = 0;
};

}  // namespace capstan
