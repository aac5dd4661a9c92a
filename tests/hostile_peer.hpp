// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "core/engine/control/call_log.hpp"
#include "core/engine/control/failure.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/messages/credits.hpp"
#include "core/engine/messages/messages.hpp"
#include "transports/shm/thread_transport.hpp"

namespace capstan {

/// Rank 0 of a world of three whose rank 1 writes into its own segment whatever it likes.
class HostileWorld {
 public:
  static constexpr Bytes ring{4096}, eager{512};

  /// `read_remote`: whether rank 0 reads offered messages out of their senders' memory.
  explicit HostileWorld(bool read_remote = false)
      : messages_{peers_, messages_at, {.ring = ring, .eager = eager, .read_remote = read_remote}} {
  }

  std::byte* hostile_segment() { return transports_[1]->segment().data(); }
  Control& hostile_control() { return control_of(hostile_segment()); }

  Messages& messages() { return messages_; }
  CallLog& log() { return log_; }
  Peers& peers() { return peers_; }

  /// Rank 1 puts a frame, and what follows it, into its rings to rank 0.
  void put(MessageFrame frame, std::span<const std::byte> payload = {}) {
    std::byte line[line_size - sizeof(std::uint64_t)]{};
    std::memcpy(line, &frame, sizeof frame);
    if (frame.kind == MessageFrame::Kind::eager && payload.size() <= Rings::short_payload)
      std::copy(payload.begin(), payload.end(), std::end(line) - Rings::short_payload);
    else
      write(payload);
    put_bytes(line);
  }
  /// Bytes in place of a frame.
  void put_bytes(std::span<const std::byte> bytes) {
    const std::size_t size = std::min(bytes.size(), line_size - sizeof produced_);
    std::memcpy(next_line() + sizeof produced_, bytes.data(), size);
    publish(produced_ + 1);
    ++produced_;
  }
  /// The number of the line that rank 0 looks at next, if it has seen all that was put.
  void publish(std::uint64_t number) { std::memcpy(next_line(), &number, sizeof number); }
  /// Rank 1 says that it has taken so many frames in all.
  void say_consumed(std::uint64_t consumed) { std::memcpy(area(), &consumed, sizeof consumed); }
  /// The rings, which come after the counts of credits.
  std::byte* area() { return hostile_segment() + (messages_at + Credits::area(ranks)).value(); }
  static std::size_t segment_bytes() { return (messages_at + Messages::area(ranks, ring)).value(); }

  /// The complaint of rank 0 about what has arrived; empty: nothing is wrong with it.
  template <class Look>
  static std::string complaint(Look look) {
    try {
      look();
    } catch (const Aborted& error) {
      return error.what();
    }
    return {};
  }
  std::string complaint_about_messages() {
    return complaint([this] { messages_.advance(); });
  }

 private:
  static constexpr int ranks = 3;
  static constexpr std::size_t line_size = 64, lines_at = (ranks + 1) * line_size;
  static constexpr Bytes messages_at{(sizeof(Control) + ranks * sizeof(Flag) + 4095) / 4096 * 4096};

  std::byte* next_line() { return area() + lines_at + produced_ % Rings::lines(ring) * line_size; }
  void write(std::span<const std::byte> bytes) {
    std::byte* const payloads = area() + lines_at + Rings::lines(ring) * line_size;
    for (std::size_t i = 0; i < bytes.size(); ++i) payloads[(bytes_ + i) % ring.value()] = bytes[i];
    bytes_ += (bytes.size() + line_size - 1) / line_size * line_size;
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(ranks, messages_at + Messages::area(ranks, ring));
  std::shared_ptr<shared::SharedMemory> memory_ = std::make_shared<shared::SharedMemory>(Bytes{1});
  Peers peers_{*transports_[0], *transports_[0], *memory_, {0, 1, 2}, Rank{0}};
  Messages messages_;
  CallLog log_{peers_};
  std::uint64_t produced_ = 0, bytes_ = 0;
};

}  // namespace capstan
