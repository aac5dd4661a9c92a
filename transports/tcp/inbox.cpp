// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/inbox.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {
namespace {

/// From this number of bytes on, another system call costs less than copying twice.
constexpr std::uint64_t worth_direct = 16 * 1024;
constexpr std::uint64_t most_at_once = 256 * 1024;
constexpr int most_reads = 4;  // in a row: then other connections are served
/// Bytes to read where a header may come. Few, because a large payload may follow, which should not
/// go through the buffer. While many small frames come, the whole buffer is used instead.
constexpr std::size_t usual_window = 4 * 1024;

/// Copies in ascending order; each aligned word becomes visible as a whole, to other threads too.
void publish(std::byte* to, std::span<const std::byte> from) {
  constexpr std::size_t word = FrameDecoder::word;
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const std::size_t head = std::min((word - address % word) % word, from.size());
  std::memcpy(to, from.data(), head);
  std::size_t at = head;
  for (; at + word <= from.size(); at += word) {
    std::uint64_t value;
    std::memcpy(&value, from.data() + at, word);
    std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to + at)}.store(
        value, std::memory_order_release);
  }
  std::memcpy(to + at, from.data() + at, from.size() - at);
}

}  // namespace

/// The number of bytes that can be read straight into the mirror; 0: use the buffer.
std::uint64_t Inbox::direct_bytes(int socket) const {
  const std::uint64_t missing = decoder_.outstanding().length;
  if (rest_size_ > 0 || missing < worth_direct) return 0;
  return decoder_.whole_words(std::min<std::uint64_t>({available(socket), missing, most_at_once}));
}

Inbox::State Inbox::receive(int socket, std::span<std::byte> buffer) {
  if (records_) return receive_records(socket);
  for (int i = 0; i < most_reads; ++i) {
    const FrameHeader payload = decoder_.outstanding();
    const std::uint64_t direct = direct_bytes(socket);
    const bool beyond = direct == 0 || direct == payload.length;  // read past the payload, too
    const std::size_t window = beyond ? (flood_ ? buffer.size() : usual_window) : rest_size_;
    std::copy_n(rest_.begin(), rest_size_, buffer.begin());

    std::array<iovec, 2> ranges{{{mirror_ + (direct ? payload.offset : 0), direct},
                                 {buffer.data() + rest_size_, window - rest_size_}}};
    const ssize_t got = ::readv(socket, ranges.data(), ranges.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return would_block(errno) ? State::open : State::broken;
    if (got == 0) return State::ended;

    const auto placed = std::min(direct, static_cast<std::uint64_t>(got));
    const std::size_t read = static_cast<std::size_t>(got) - placed;
    decoder_.skip(placed);
    if (read > 0 && deliver(buffer.first(rest_size_ + read))) return State::left;

    const bool filled = beyond && read == ranges[1].iov_len;
    flood_ = (filled || read >= usual_window) && decoder_.outstanding().length < worth_direct;
    if (beyond ? !filled : direct < most_at_once / 2) break;  // the socket is empty
  }
  return State::open;
}

Inbox::State Inbox::receive_records(int socket) {
  for (int i = 0; i < most_reads; ++i) {
    const auto space = records_->space();
    const ssize_t got = ::recv(socket, space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return would_block(errno) ? State::open : State::broken;
    if (got == 0) return State::ended;
    records_->commit(static_cast<std::size_t>(got));
    while (const auto payload = records_->next())
      if (deliver_record(*payload)) return State::left;
    if (static_cast<std::size_t>(got) < space.size()) break;  // the socket is empty
  }
  return State::open;
}

/// Frames do not end where records do.
bool Inbox::deliver_record(std::span<std::byte> payload) {
  std::byte* const begin = payload.data() - rest_size_;
  std::copy_n(rest_.begin(), rest_size_, begin);
  return deliver({begin, payload.size() + rest_size_});
}

/// Delivers the payload of whole words. True after a goodbye.
bool Inbox::deliver(std::span<const std::byte> input) {
  while (true) {
    const FrameDecoder::Event event = decoder_.next(input);
    if (std::holds_alternative<FrameDecoder::Goodbye>(event)) return true;
    if (std::holds_alternative<FrameDecoder::NeedsMore>(event)) break;
    const auto& piece = std::get<FrameDecoder::Piece>(event);
    publish(mirror_ + piece.offset, piece.bytes);
  }
  rest_size_ = input.size();
  std::ranges::copy(input, rest_.begin());
  return false;
}

Inbox::State Inbox::peek(int socket) const {
  std::array<std::byte, sizeof(FrameHeader)> bytes;
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return State::ended;
  if (got < 0) return would_block(errno) || errno == EINTR ? State::open : State::broken;
  const bool header = rest_size_ == 0 && decoder_.outstanding().length == 0;
  if (!header || got < static_cast<ssize_t>(bytes.size())) return State::open;
  FrameHeader found;
  std::memcpy(&found, bytes.data(), sizeof(found));
  return found == goodbye ? State::left : State::open;
}

}  // namespace capstan::tcp
