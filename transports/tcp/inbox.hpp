// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "transports/tcp/frame.hpp"
#include "transports/tcp/record.hpp"

namespace capstan::tcp {

/// Receives from one peer into the mirror of the peer's segment: small frames through a buffer,
/// many with one system call, and large frames straight into place.
class Inbox {
 public:
  /// `mirror` holds `segment` bytes.
  Inbox(std::byte* mirror, Bytes segment) : mirror_(mirror), decoder_(segment) {}

  enum class State {
    open,    // everything that has arrived has been read, or as much as one turn allows
    left,    // the peer has said goodbye
    ended,   // the connection was closed without a goodbye
    broken,  // by an error, which is in errno
  };

  /// From now on takes records that are sealed.
  void unseal(const RecordSeal& seal) { records_ = std::make_unique<RecordReceiver>(seal); }

  /// Reads the bytes that `socket` has. `buffer` may be shared with other inboxes. Throws
  /// MalformedMessage.
  State receive(int socket, std::span<std::byte> buffer);

  bool is_sealed() const { return records_ != nullptr; }

  /// The state that receive() would return next, without reading. Only for an inbox that is not
  /// sealed. Anything but left, ended and broken counts as open.
  State peek(int socket) const;

 private:
  std::uint64_t direct_bytes(int socket) const;
  State receive_records(int socket);
  bool deliver_record(std::span<std::byte> payload);
  bool deliver(std::span<const std::byte> input);

  std::byte* mirror_;
  FrameDecoder decoder_;
  std::array<std::byte, FrameDecoder::most_left> rest_{};  // read, but not delivered yet
  std::size_t rest_size_ = 0;
  bool flood_ = false;                       // of small frames
  std::unique_ptr<RecordReceiver> records_;  // where all is sealed
};

}  // namespace capstan::tcp
