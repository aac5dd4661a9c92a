#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "capstan/deadline.hpp"
#include "core/net/file_descriptor.hpp"

namespace capstan::tcp {

/// Waits for many sockets and a point in time at once. modify() is thread-safe, the rest is for one
/// thread.
class Poller {
 public:
  /// What an event concerns: a kind of thing and which of them.
  struct Tag {
    std::uint32_t kind = 0;
    std::uint32_t id = 0;
  };
  struct Event {
    Tag tag;
    bool readable = false;  // also when the connection has ended
    bool writable = false;
  };

  /// Throws SystemError.
  Poller();

  void add(int fd, Tag tag, bool input, bool output);
  void modify(int fd, Tag tag, bool input, bool output);
  void remove(int fd);
  /// descriptor() becomes readable at `when`, until the next wait().
  void alarm(Deadline when);

  /// What has happened; waits at most `timeout` ms for it, for ever if it is negative.
  std::span<const Event> wait(int timeout);

  /// Readable when wait(0) would return something.
  int descriptor() const { return epoll_.get(); }

 private:
  void control(int operation, int fd, Tag tag, bool input, bool output);

  FileDescriptor epoll_;
  FileDescriptor timer_;
  Deadline armed_ = Deadline::never();
  std::array<epoll_event, 64> ready_{};
  std::array<Event, 64> events_{};
};

}  // namespace capstan::tcp
