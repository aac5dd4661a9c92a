// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "transports/ofi/ofi_address.hpp"

namespace capstan::ofi {

// Providers of reliable datagrams often do not report that a peer has died. Kernels do: a TCP
// connection ends with the process at its other end, however that ends. The listener does not
// accept connections while it lives, as its kernel completes them: being watched costs a process
// nothing.

/// The socket to which peers connect to watch this rank.
class LivenessListener {
 public:
  /// Listens on a port of the kernel's choice. Throws SystemError.
  explicit LivenessListener(int watchers);
  LivenessListener(LivenessListener&&) = default;

  std::uint16_t port() const { return port_; }
  /// Tells all watching peers that this rank leaves in good order.
  void say_goodbye();

 private:
  FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

/// Watches one peer. The first check connects, which takes a few system calls; later ones take one.
class LivenessWatch {
 public:
  enum class State : std::uint8_t {
    unknown,  // not connected yet
    alive,
    left,         // it said goodbye
    died,         // its connection has ended without a goodbye
    refused,      // nobody listens there: it died or left before it was watched
    unreachable,  // no connection is possible, which tells nothing about the peer
  };

  LivenessWatch() = default;
  /// `peer` as seen by the process with address `here`.
  LivenessWatch(const OfiAddress& peer, const OfiAddress& here);

  /// Never blocks.
  State check();

 private:
  void start_next();
  State check_connecting();
  State check_connected();
  State settle(State state);

  std::vector<MappedIp> ips_;  // still to be tried; the last is the next
  std::uint16_t port_ = 0;
  FileDescriptor socket_;
  Deadline attempt_ = Deadline::never();
  State state_ = State::unknown;
  bool was_refused_ = false;
};

}  // namespace capstan::ofi
