// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "capstan/deadline.hpp"
#include "core/platform/net/poller.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {

/// The most connections of unauthenticated peers that a process may hold at a time:
/// as many as `wanted`, but no more than an eighth of the descriptors that it may have (at least
/// 16), so that strangers cannot use them up.
std::size_t most_strangers(std::size_t wanted);

/// A listening socket that a poller watches. When descriptors or memory run out, the socket is not
/// watched for a moment: the connections that wait would wake the caller without end.
class Listener {
 public:
  /// Not watched before start(). The poller outlives the listener.
  Listener(FileDescriptor socket, Poller& poller, Poller::Tag tag)
      : socket_(std::move(socket)), poller_(&poller), tag_(tag) {}

  void start();
  bool open() const { return socket_.valid(); }
  void close();

  /// Gives the connections that wait to `admit`, but at most 64, so that other sockets get their
  /// turn. When descriptors or memory run out, tells `warn` the reason and pauses.
  void accept_all(const std::function<void(Accepted)>& admit,
                  const std::function<void(const std::string&)>& warn);

  /// Ends the pause if its time is up. Returns the end of a pause that continues.
  Deadline resume();

 private:
  void watch(bool on);

  FileDescriptor socket_;
  Poller* poller_;
  Poller::Tag tag_;
  bool watched_ = false;
  Deadline paused_until_ = Deadline::never();
};

}  // namespace capstan
