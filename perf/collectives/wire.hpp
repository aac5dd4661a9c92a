#pragma once

#include <cstddef>
#include <vector>

#include "core/net/file_descriptor.hpp"

namespace capstan::perf {

/// One end of a TCP connection, driven as fast as plain sockets go: never blocking, always
/// spinning. What is sent has no meaning. Not thread-safe.
class Wire {
 public:
  /// Bytes go out of and into a buffer of `window` bytes again and again; one that stays in the
  /// cache shows the wire alone, one as large as a message the memory behind it, too.
  Wire(FileDescriptor socket, std::size_t window);

  /// Sends `sending` bytes on `to` and receives `receiving` on `from`, which may be the same wire,
  /// at the same time, until both are done. Throws SystemError when the other side is gone.
  static void exchange(Wire& to, std::size_t sending, Wire& from, std::size_t receiving);
  /// Both ways on this wire.
  void exchange(std::size_t sending, std::size_t receiving) {
    exchange(*this, sending, *this, receiving);
  }

 private:
  /// Moves what goes at once; how much that was.
  std::size_t send(std::size_t done, std::size_t all);
  std::size_t receive(std::size_t done, std::size_t all);
  std::size_t step(std::size_t done, std::size_t all) const;

  FileDescriptor socket_;
  std::vector<char> outgoing_, incoming_;
};

/// A connection's bytes per system call, and a window that stays in the cache.
inline constexpr std::size_t wire_call_bytes = 256 << 10;

}  // namespace capstan::perf
