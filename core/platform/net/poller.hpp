// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "capstan/deadline.hpp"
#include "core/platform/net/file_descriptor.hpp"

namespace capstan {

/// Watches many descriptors, and a point in time, at once (epoll and timerfd). It runs no loop of
/// its own: the caller decides when to wait().
///
/// add(), modify() and remove() may be called by any thread, the rest by one thread at a time.
class Poller {
 public:
  /// Names the source of an event: a kind, and a number within it.
  struct Tag {
    std::uint32_t kind = 0;
    std::uint32_t id = 0;
  };
  /// Conditions to watch a descriptor for. Errors and the end of a connection in both directions
  /// are always reported.
  enum Interest : std::uint32_t {
    nothing = 0,
    input = EPOLLIN,
    output = EPOLLOUT,
    peer_closed = EPOLLRDHUP,  ///< the other end sends no more
  };
  struct Event {
    Tag tag;
    bool readable = false;
    bool writable = false;
    bool peer_closed = false;  ///< reported for descriptors with Interest peer_closed
    bool ended = false;        ///< by an error, or in both directions
  };

  /// Throws SystemError when there are no descriptors left.
  Poller();
  /// A poller whose alarm() can be set.
  static Poller with_alarm();

  /// `interests` are of Interest, or-ed. Throw SystemError.
  void add(int fd, Tag tag, std::uint32_t interests);
  void modify(int fd, Tag tag, std::uint32_t interests);
  void remove(int fd);

  /// descriptor() becomes readable at `when`, and stays so until wait() or another alarm().
  void alarm(Deadline when);

  /// The events so far. Waits for the first at most `milliseconds`, for ever if that is negative. A
  /// signal ends the wait. The result is valid until the next wait().
  std::span<const Event> wait(int milliseconds);

  /// Readable when wait(0) would return something, or an alarm is due.
  int descriptor() const { return epoll_.get(); }

 private:
  void control(int operation, int fd, Tag tag, std::uint32_t interests);

  FileDescriptor epoll_;
  FileDescriptor timer_;
  Deadline armed_ = Deadline::never();
  std::array<Event, 64> events_{};
};

}  // namespace capstan
