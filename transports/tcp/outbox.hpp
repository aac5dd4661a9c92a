// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "core/platform/net/poller.hpp"
#include "transports/tcp/frame.hpp"
#include "transports/tcp/record.hpp"
#include "transports/transport.hpp"

namespace capstan::tcp {

/// The frames that have been pushed to one peer and are not sent yet. Thread-safe, so that any
/// thread can wake the peer. Does not allocate once it has reached its greatest length.
class Outbox {
 public:
  /// Adds a frame. `data` is copied when it is short (Transport::snapshot), and otherwise read
  /// until it is sent.
  void push(std::uint64_t offset, const std::byte* data, std::uint64_t length);
  /// Sends the frames pushed so far, as far as they fit; flush() sends the rest. While a thread
  /// sleeps or is about to (`watched`), the poller is told at once when something remains.
  /// `watched` is read last, under the lock that sync_interest() takes: the thread that sets it and
  /// then calls sync_interest() sees what remains, or is seen here.
  void wake(const std::atomic<bool>& watched);
  /// Continues where wake() had to stop. Cheap when there is nothing to do.
  void flush(const std::atomic<bool>& watched);

  /// Copies the sources of frames that are not sent yet, so that these may change.
  void detach();

  /// Sends all sealed, in records. To be called before open().
  void seal(const RecordSeal& seal);
  /// Starts to send over a new connection. The socket stays open until close().
  void open(int socket, Poller& poller, Poller::Tag tag);
  /// Adds the last frame, and sends everything from now on.
  void say_goodbye();
  /// Drops all frames, also later ones; the socket is no longer used.
  void close();

  /// Whether all that was pushed before the last wake() has been sent.
  bool sent() const;
  /// Makes the poller watch for room in the socket, if frames are left that were to be sent.
  void sync_interest();
  /// The error that ended sending, 0 if none has.
  int error() const;
  /// The number of pushed bytes that have been sent.
  std::uint64_t sent_bytes() const;

 private:
  /// A header and its payload: in `copy`, right behind the header, or at `data`.
  struct PendingFrame {
    FrameHeader header;
    std::array<std::byte, Transport::snapshot.value()> copy;
    const std::byte* data;  // null: copied

    std::size_t inline_size() const { return sizeof(header) + (data ? 0 : header.length); }
    std::uint64_t size() const { return sizeof(header) + header.length; }
  };

  struct Batch;
  void flush_locked();
  bool send_batch();
  bool send_frames();
  bool send_record();
  bool has_failed(ssize_t sent);
  Batch gather(std::uint64_t most) const;
  void advance(std::uint64_t count);
  void drop_sent();
  void sync_interest_locked();

  mutable std::mutex mutex_;
  std::vector<PendingFrame> frames_;
  std::optional<RecordSender> records_;           // where all is sealed
  std::vector<std::vector<std::byte>> detached_;  // copies that frames refer to after detach()
  std::size_t next_ = 0;                          // of frames_: sent up to there
  std::uint64_t partial_ = 0;                     // bytes of frame next_ that are sent
  std::size_t woken_ = 0;                         // of frames_: to be sent up to there
  int socket_ = -1;
  Poller* poller_ = nullptr;
  Poller::Tag tag_;
  bool closed_ = false;
  bool watching_ = false;  // the poller looks for room
  int error_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::atomic<bool> unsent_{false};  // frames are left
  std::atomic<bool> stuck_{false};   // frames are left that were to be sent already
};

}  // namespace capstan::tcp
