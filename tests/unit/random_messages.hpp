#pragma once

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/communicator.hpp"

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
      // Who has something to send waits for nobody: all might wait for one another.
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

  static std::byte content(int number, std::size_t at) {
    return static_cast<std::byte>((static_cast<std::size_t>(number) * 131 + at * 7 + at / 251) &
                                  0xff);
  }

  void send_next() {
    // As many as there are: a receiver may wait for the last before it takes the first.
    while (!under_way_.empty() && under_way_.front().first.is_completed()) under_way_.pop_front();
    const Planned message = to_send_.front();
    to_send_.pop_front();
    auto& [work, data] = under_way_.emplace_back();
    data.resize(message.size);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::uint8_t>(content(message.number, i));
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
        buffer.resize(8 << 20);
        info = world_.receive(buffer);
        break;
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

  std::string check(const std::vector<std::uint8_t>& buffer, const MessageInfo& info) {
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
    for (std::size_t i = 0; i < planned.size; ++i)
      if (static_cast<std::byte>(buffer[i]) != content(planned.number, i))
        return which + " differs at byte " + std::to_string(i) + " of " +
               std::to_string(planned.size);
    return "";
  }

  Communicator& world_;
  std::mt19937_64 own_random_;
  std::deque<Planned> to_send_;
  std::map<std::pair<int, int>, std::deque<Planned>> expected_;
  int to_receive_ = 0;
  std::deque<std::pair<Work, std::vector<std::uint8_t>>> under_way_;
};

}  // namespace capstan
