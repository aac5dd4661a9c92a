// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/outbox.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {
namespace {

/// Bytes of one system call: as many as stay in the cache between here and the other end's copy.
constexpr std::uint64_t batch_bytes = 256 * 1024;
constexpr int most_batches = 4;  // in a row: then other connections are served
constexpr std::size_t most_ranges = 128;
constexpr std::size_t worth_compacting = 256;

}  // namespace

/// The ranges of memory that one system call sends.
struct Outbox::Batch {
  std::array<iovec, most_ranges> ranges;
  std::uint64_t most = batch_bytes;
  std::size_t count = 0;
  std::uint64_t bytes = 0;

  bool full() const { return count + 2 > most_ranges || bytes >= most; }

  /// Adds the range without its first `skip` bytes, which are taken off `skip`.
  void add(const void* data, std::uint64_t length, std::uint64_t& skip) {
    const std::uint64_t skipped = std::min(skip, length);
    skip -= skipped;
    length = std::min(length - skipped, most - std::min(bytes, most));
    if (length == 0) return;
    auto* start = const_cast<char*>(static_cast<const char*>(data)) + skipped;
    ranges[count++] = {start, static_cast<std::size_t>(length)};
    bytes += length;
  }
};

void Outbox::push(std::uint64_t offset, const std::byte* data, std::uint64_t length) {
  const std::lock_guard lock{mutex_};
  if (closed_) return;
  PendingFrame& frame = frames_.emplace_back();
  frame.header = {offset, length};
  if (length <= Transport::snapshot.value()) {
    std::memcpy(frame.copy.data(), data, static_cast<std::size_t>(length));
  } else {
    frame.data = data;
  }
  unsent_.store(true, std::memory_order_relaxed);
}

void Outbox::detach() {
  const std::lock_guard lock{mutex_};
  for (std::size_t i = next_; i < frames_.size(); ++i) {
    PendingFrame& frame = frames_[i];
    if (!frame.data) continue;
    detached_.emplace_back(frame.data, frame.data + frame.header.length);
    frame.data = detached_.back().data();
  }
}

void Outbox::say_goodbye() {
  const std::lock_guard lock{mutex_};
  if (closed_) return;
  frames_.emplace_back().header = goodbye;
  woken_ = frames_.size();
  flush_locked();
}

void Outbox::wake(const std::atomic<bool>& watched) {
  if (!unsent_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  woken_ = frames_.size();
  flush_locked();
  if (watched.load()) sync_interest_locked();
}

void Outbox::flush(const std::atomic<bool>& watched) {
  if (!stuck_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{mutex_};
  flush_locked();
  if (watched.load()) sync_interest_locked();
}

void Outbox::flush_locked() {
  if (next_ >= woken_ || socket_ < 0) return;
  for (int i = 0; i < most_batches && next_ < frames_.size(); ++i) {
    if (!send_batch()) break;
  }
  drop_sent();
  stuck_.store(next_ < woken_, std::memory_order_relaxed);
  unsent_.store(next_ < frames_.size(), std::memory_order_relaxed);
}

/// False when no more can be sent for now.
bool Outbox::send_batch() {
  return records_ ? send_record() : send_frames();
}

bool Outbox::send_frames() {
  Batch batch = gather(batch_bytes);
  msghdr message{};
  message.msg_iov = batch.ranges.data();
  message.msg_iovlen = batch.count;
  ssize_t sent;
  do {
    sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (has_failed(sent)) return false;
  advance(static_cast<std::uint64_t>(std::max<ssize_t>(sent, 0)));
  return sent == static_cast<ssize_t>(batch.bytes);
}

/// A record is made once what came before it is on its way. Its frames count as sent when all of
/// it is.
bool Outbox::send_record() {
  if (records_->empty()) {
    const Batch batch = gather(largest_record);
    records_->fill(std::span{batch.ranges}.first(batch.count));
  }
  const auto rest = records_->unsent();
  ssize_t sent;
  do {
    sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (has_failed(sent)) return false;
  records_->advance(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  if (!records_->empty()) return false;
  advance(records_->payload());
  return true;
}

/// Ends sending if it cannot continue. Where the peer cannot know, as the system only refuses this
/// process the call, the connection ends, which the inbox of both notices.
bool Outbox::has_failed(ssize_t sent) {
  if (sent >= 0 || would_block(errno)) return false;
  error_ = errno;
  if (error_ != ECONNRESET && error_ != EPIPE) ::shutdown(socket_, SHUT_RDWR);
  next_ = frames_.size();
  partial_ = 0;
  closed_ = true;
  return true;
}

Outbox::Batch Outbox::gather(std::uint64_t most) const {
  Batch batch;
  batch.most = most;
  std::uint64_t skip = partial_;
  for (std::size_t i = next_; i < frames_.size() && !batch.full(); ++i) {
    const PendingFrame& frame = frames_[i];
    batch.add(&frame.header, frame.inline_size(), skip);
    if (frame.data) batch.add(frame.data, frame.header.length, skip);
  }
  return batch;
}

void Outbox::advance(std::uint64_t count) {
  partial_ += count;
  while (next_ < frames_.size() && partial_ >= frames_[next_].size()) {
    partial_ -= frames_[next_].size();
    const std::uint64_t length = frames_[next_++].header.length;
    sent_bytes_ += length;
  }
}

void Outbox::drop_sent() {
  if (next_ < frames_.size() && (next_ < worth_compacting || next_ < frames_.size() / 2)) return;
  frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(next_));
  woken_ -= std::min(woken_, next_);
  next_ = 0;
  if (frames_.empty()) detached_.clear();
}

void Outbox::seal(const RecordSeal& seal) {
  const std::lock_guard lock{mutex_};
  records_.emplace(seal);
}

void Outbox::open(int socket, Poller& poller, Poller::Tag tag) {
  const std::lock_guard lock{mutex_};
  socket_ = socket;
  poller_ = &poller;
  tag_ = tag;
  flush_locked();
}

void Outbox::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  socket_ = -1;
  frames_.clear();
  next_ = woken_ = 0;
  partial_ = 0;
  unsent_.store(false, std::memory_order_relaxed);
  stuck_.store(false, std::memory_order_relaxed);
}

bool Outbox::sent() const {
  const std::lock_guard lock{mutex_};
  return next_ >= woken_;
}

void Outbox::sync_interest() {
  const std::lock_guard lock{mutex_};
  sync_interest_locked();
}

void Outbox::sync_interest_locked() {
  const bool stuck = next_ < woken_;
  if (socket_ < 0 || stuck == watching_) return;
  poller_->modify(socket_, tag_, Poller::input | (stuck ? Poller::output : Poller::nothing));
  watching_ = stuck;
}

int Outbox::error() const {
  const std::lock_guard lock{mutex_};
  return error_;
}

std::uint64_t Outbox::sent_bytes() const {
  const std::lock_guard lock{mutex_};
  return sent_bytes_;
}

}  // namespace capstan::tcp
