// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {

/// Random messages between all ranks of a world, with random tags and sizes, received in every way
/// there is; contents, sizes and order are checked.
class RandomMessages {
 public:
  RandomMessages(Communicator& world, int messages, std::uint64_t seed)
      : world_(world), own_random_(seed * 97 + static_cast<std::uint64_t>(world.rank())) {
    std::mt19937_64 random{seed};
    const auto ranks = static_cast<unsigned>(world.size());
    for (int i = 0; i < messages; ++i) {
      const Planned message{static_cast<int>(random() % ranks), static_cast<int>(random() % ranks),
                            static_cast<int>(random() % 5), draw_size(random), i};
      if (message.from == world.rank()) to_send_.push_back(message);
      if (message.to == world.rank()) {
        expected_[{message.from, message.tag}].push_back(message);
        ++to_receive_;
      }
    }
  }

  /// Empty, or what went wrong.
  std::string run() {
    while (!to_send_.empty() || to_receive_ > 0) {
      // A rank that has something to send waits for nobody: all might wait for one another.
      if (!to_send_.empty() && (own_random_() % 2 == 0 || !world_.try_probe()))
        send_next();
      else if (const std::string trouble = receive_next(); !trouble.empty())
        return trouble;
    }
    for (auto& [work, data] : under_way_) work.wait();
    return world_.try_probe() ? "a message too many has arrived" : "";
  }

 private:
  struct Planned {
    int from, to, tag;
    std::size_t size;
    int number;
  };

  /// Mostly short, some long, now and then up to 8 MiB.
  static std::size_t draw_size(std::mt19937_64& random) {
    const auto kind = random() % 1000;
    if (kind < 100) return 0;
    if (kind < 900) return random() % 2000;
    if (kind < 997) return random() % 100'000;
    return random() % (8 << 20);
  }

  /// The contents of a message: no two of its words are alike, nor those of two messages.
  static std::vector<std::uint8_t> content(const Planned& message) {
    std::vector<std::uint64_t> words(message.size / 8 + 1);
    std::uint64_t word = static_cast<std::uint64_t>(message.number) << 32;
    for (std::uint64_t& each : words) each = word++ * 0x9e3779b97f4a7c15;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
    return {bytes, bytes + message.size};
  }

  void send_next() {
    // As many as there are: a receiver may wait for the last before it takes the first.
    while (!under_way_.empty() && under_way_.front().first.is_completed()) under_way_.pop_front();
    const Planned message = to_send_.front();
    to_send_.pop_front();
    auto& [work, data] = under_way_.emplace_back(Work{}, content(message));
    work = world_.start_send(data, message.to, message.tag);
  }

  std::string receive_next() {
    std::vector<std::uint8_t> buffer;
    MessageInfo info{};
    switch (own_random_() % (to_send_.empty() ? 3 : 2)) {
      case 0: {  // whatever comes, seen before it is received
        info = world_.probe();
        buffer.resize(info.size.value());
        info = world_.receive(buffer, info.source, info.tag);
        break;
      }
      case 1: {  // whatever comes
        info = world_.receive(large_);
        return check(large_, info);
      }
      default: {  // from whom something is still to come
        auto next = expected_.begin();
        while (next->second.empty()) ++next;
        buffer.resize(next->second.front().size + own_random_() % 3);
        info = world_.receive(buffer, next->first.first, next->first.second);
      }
    }
    return check(buffer, info);
  }

  std::string check(std::span<const std::uint8_t> buffer, const MessageInfo& info) {
    auto& queue = expected_[{info.source, info.tag}];
    const std::string which =
        "message from " + std::to_string(info.source) + " with tag " + std::to_string(info.tag);
    if (queue.empty()) return which + " was never sent";
    const Planned planned = queue.front();
    queue.pop_front();
    --to_receive_;
    if (info.size.value() != planned.size)
      return which + " has " + std::to_string(info.size.value()) + " bytes, not " +
             std::to_string(planned.size) + ": one has overtaken another";
    const auto expected = content(planned);
    const auto at = std::ranges::mismatch(expected, buffer).in1 - expected.begin();
    if (static_cast<std::size_t>(at) < planned.size)
      return which + " differs at byte " + std::to_string(at) + " of " +
             std::to_string(planned.size);
    return "";
  }

  Communicator& world_;
  std::mt19937_64 own_random_;
  std::deque<Planned> to_send_;
  std::map<std::pair<int, int>, std::deque<Planned>> expected_;
  int to_receive_ = 0;
  std::vector<std::uint8_t> large_ = std::vector<std::uint8_t>(8 << 20);
  std::deque<std::pair<Work, std::vector<std::uint8_t>>> under_way_;
};

}  // namespace capstan
