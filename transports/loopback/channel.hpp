#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "transports/transport.hpp"

namespace capstan::loopback {

/// What one rank has pushed to another and the other has not yet taken in, in order. Thread-safe.
class Channel {
 public:
  /// Short ranges are copied now, longer ones when the receiver takes them.
  void push(Bytes offset, const std::byte* from, Bytes length);
  /// Lets the receiver have all that was pushed before.
  void release();
  /// What has not been taken is copied, so that its memory may change.
  void detach();
  /// The sender goes: what was released is copied, so that its memory may vanish; the rest is lost.
  void close_sender();
  /// The receiver goes: nothing is read any more.
  void close_receiver();

  /// Copies what was released into `mirror`; returns whether the sender may wait for its memory.
  bool deliver(std::byte* mirror);

  /// Counts of posts: how many were released, up to which one memory is still to be read, and how
  /// many have been taken.
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
