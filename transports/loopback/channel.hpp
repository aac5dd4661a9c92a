// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "transports/transport.hpp"

namespace capstan::loopback {

/// Pushes from one rank to another that have not been delivered yet, in order. Thread-safe.
class Channel {
 public:
  /// Copies short ranges now; longer ones are read on delivery.
  void push(Bytes offset, const std::byte* from, Bytes length);
  /// Lets the receiver take everything pushed so far.
  void release();
  /// Copies ranges that have not been delivered, so that the sender's memory may change.
  void detach();
  /// Ends the sender: copies the released ranges, so that the sender's memory may vanish, and drops
  /// the rest.
  void close_sender();
  /// Ends the receiver: nothing is read any more.
  void close_receiver();

  /// Copies the released ranges into `mirror`. Returns whether memory of the sender is free now.
  bool deliver(std::byte* mirror);

  /// Counts of posts: released so far; up to the last one whose memory is still to be read;
  /// delivered so far.
  std::uint64_t released() const { return released_.load(std::memory_order_acquire); }
  std::uint64_t awaited() const { return awaited_.load(std::memory_order_acquire); }
  std::uint64_t delivered() const { return delivered_.load(std::memory_order_acquire); }

 private:
  struct Post {
    Bytes offset, length;
    const std::byte* from;                                    // of long ones
    std::array<std::byte, Transport::snapshot.value()> copy;  // of short ones
    std::unique_ptr<std::byte[]> saved;                       // of long ones that are detached

    bool is_short() const { return length <= Transport::snapshot; }
    bool is_read_late() const { return !is_short() && !saved; }
    void save();
    const std::byte* source() const;
  };
  std::uint64_t waiting() const { return released() - delivered(); }
  void note_awaited();

  std::mutex mutex_;
  std::deque<Post> posts_;  // the first released() - delivered() of them are released
  bool closed_ = false;
  std::atomic<std::uint64_t> released_{0}, awaited_{0}, delivered_{0};  // written under the mutex
};

}  // namespace capstan::loopback
