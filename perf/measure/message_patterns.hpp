// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace capstan::perf {

/// How two ranks send each other messages of one length.
enum class MessagePattern : std::uint32_t {
  none,
  latency,        ///< one there and one back
  bandwidth,      ///< a window from the even rank to the odd one, which answers the last
  bidirectional,  ///< a window both ways
};

inline constexpr MessagePattern message_patterns[] = {
    MessagePattern::latency, MessagePattern::bandwidth, MessagePattern::bidirectional};

constexpr std::string_view name_of(MessagePattern pattern) {
  switch (pattern) {
    case MessagePattern::none:
      return "none";
    case MessagePattern::latency:
      return "latency";
    case MessagePattern::bandwidth:
      return "bandwidth";
    case MessagePattern::bidirectional:
      return "bidirectional";
  }
  return "";
}

/// The rank of the other one of a pair: (0, 1), (2, 3) and so on. -1: the last of an odd number.
constexpr int message_peer(int rank, int ranks) {
  const int peer = rank ^ 1;
  return peer < ranks ? peer : -1;
}

/// The messages of a pattern in the buffers of one rank.
struct MessageRun {
  MessagePattern pattern{};
  int rank = 0, peer = -1;
  std::size_t bytes = 0;
  int window = 1;
  const std::byte* out = nullptr;
  std::byte* in = nullptr;

  bool begins() const { return rank < peer; }
};

/// The messages by whose number the time of a pattern is divided: it is that of one of them.
constexpr int messages_in(MessagePattern pattern, int window) {
  switch (pattern) {
    case MessagePattern::none:
      return 1;
    case MessagePattern::latency:
      return 2;
    case MessagePattern::bandwidth:
      return window;
    case MessagePattern::bidirectional:
      return 2 * window;
  }
  return 1;
}

/// The byte that a rank sends at a place.
constexpr std::byte message_byte(int rank, std::size_t at) {
  return static_cast<std::byte>(at * 7 + static_cast<std::size_t>(rank) * 31 + 1);
}

/// Runs a pattern once. `ends` sends and receives for a library: send() and receive() block,
/// start_send() and start_receive() do not, and wait() waits for all that were started. Each takes
/// the buffer, its bytes and the peer.
template <class Ends>
void run_messages(Ends& ends, const MessageRun& run) {
  const auto send = [&](std::size_t bytes) { ends.send(run.out, bytes, run.peer); };
  const auto receive = [&](std::size_t bytes) { ends.receive(run.in, bytes, run.peer); };
  switch (run.pattern) {
    case MessagePattern::none:
      return;
    case MessagePattern::latency:
      if (run.begins()) send(run.bytes);
      receive(run.bytes);
      if (!run.begins()) send(run.bytes);
      return;
    case MessagePattern::bandwidth:
      for (int i = 0; i < run.window; ++i)
        run.begins() ? ends.start_send(run.out, run.bytes, run.peer)
                     : ends.start_receive(run.in, run.bytes, run.peer);
      ends.wait();
      run.begins() ? receive(1) : send(1);  // so that the time includes the arrival of all
      return;
    case MessagePattern::bidirectional:
      for (int i = 0; i < run.window; ++i) {
        ends.start_receive(run.in, run.bytes, run.peer);
        ends.start_send(run.out, run.bytes, run.peer);
      }
      ends.wait();
      return;
  }
}

}  // namespace capstan::perf
