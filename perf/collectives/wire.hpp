// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::perf {

/// One end of a TCP connection, driven as fast as plain sockets allow: non-blocking and spinning.
/// The bytes have no meaning. Not thread-safe.
class Wire {
 public:
  /// Bytes are sent from and received into a buffer of `window` bytes again and again. A window
  /// that stays in the cache measures the wire alone; one as large as a message also measures
  /// memory.
  Wire(FileDescriptor socket, std::size_t window);

  /// Sends `sending` bytes on `to` and receives `receiving` bytes on `from` at the same time. Both
  /// may be the same wire. Throws SystemError when the other side has closed the connection.
  static void exchange(Wire& to, std::size_t sending, Wire& from, std::size_t receiving);
  /// Sends and receives on this wire.
  void exchange(std::size_t sending, std::size_t receiving) {
    exchange(*this, sending, *this, receiving);
  }

 private:
  /// Moves what is possible without waiting. Returns the number of bytes.
  std::size_t send(std::size_t done, std::size_t all);
  std::size_t receive(std::size_t done, std::size_t all);
  std::size_t step(std::size_t done, std::size_t all) const;

  FileDescriptor socket_;
  std::vector<char> outgoing_, incoming_;
};

/// Bytes per system call, and a window that stays in the cache.
inline constexpr std::size_t wire_call_bytes = 256 << 10;

}  // namespace capstan::perf
