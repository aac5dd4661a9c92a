// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  /// Rank 1 puts a frame, and what follows it, into its ring to rank 0.
  void put(MessageFrame frame, std::span<const std::byte> payload = {}) {
    write(&frame, sizeof frame);
    write(payload.data(), payload.size());
    publish(produced_);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    write(bytes.data(), bytes.size());
    publish(produced_);
  }
  /// Rank 1 says that it has sent or taken so many bytes in all.
  void publish(std::uint64_t produced) {
    produced_ = produced;
    std::memcpy(area() + tails, &produced, sizeof produced);
  }
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
  static constexpr std::size_t line = 64, tails = ranks * line;
  static constexpr Bytes messages_at{(sizeof(Control) + ranks * sizeof(Flag) + 4095) / 4096 * 4096};

  void write(const void* from, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      area()[tails + line + produced_++ % ring.value()] = static_cast<const std::byte*>(from)[i];
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(ranks, messages_at + Messages::area(ranks, ring));
  std::shared_ptr<shared::SharedMemory> memory_ = std::make_shared<shared::SharedMemory>(Bytes{1});
  Peers peers_{*transports_[0], *transports_[0], *memory_, {0, 1, 2}, Rank{0}};
  Messages messages_;
  CallLog log_{peers_};
  std::uint64_t produced_ = 0;
};

}  // namespace capstan
