// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/faulty/stream.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::faulty {
namespace {

constexpr std::uint64_t word_bytes = 8;
/// Limits a record, so that a long push starts to arrive while its end waits for room.
constexpr std::uint64_t longest_piece = StreamLayout::ring_size / 8;

std::atomic_ref<std::uint64_t> word_at(const std::byte* place) {
  return std::atomic_ref{*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(place))};
}

/// Calls `copy(offset in the ring, offset in the range, length)` for each part of a range: two if
/// it wraps around, else one.
template <class Copy>
void around_ring(std::uint64_t position, std::uint64_t length, Copy&& copy) {
  const std::uint64_t start = position % StreamLayout::ring_size;
  const std::uint64_t first = std::min(length, StreamLayout::ring_size - start);
  if (first > 0) copy(start, std::uint64_t{0}, first);
  if (first < length) copy(std::uint64_t{0}, first, length - first);
}

}  // namespace

std::uint64_t StreamEnd::size_of(const Header& header) {
  const std::uint64_t carried = header.refers ? 0 : header.length;
  return sizeof(Header) + (carried + word_bytes - 1) / word_bytes * word_bytes;
}

std::uint64_t StreamEnd::peer_cursor(Cursor cursor) const {
  const auto offset = layout_.cursors(self_) + static_cast<std::uint64_t>(cursor) * word_bytes;
  return word_at(inner_->link(peer_).segment + offset).load(std::memory_order_acquire);
}

void StreamEnd::publish(Cursor cursor, std::uint64_t value) {
  const auto offset = layout_.cursors(peer_) + static_cast<std::uint64_t>(cursor) * word_bytes;
  word_at(inner_->segment().data() + offset).store(value, std::memory_order_release);
  inner_->push(peer_, Bytes{offset}, Bytes{word_bytes});
}

void StreamEnd::read(std::uint64_t position, void* to, std::uint64_t length) const {
  const std::byte* ring = inner_->link(peer_).segment + layout_.ring(self_);
  around_ring(position, length, [&](std::uint64_t at, std::uint64_t done, std::uint64_t size) {
    std::memcpy(static_cast<std::byte*>(to) + done, ring + at, size);
  });
}

void StreamEnd::write(std::uint64_t position, const void* from, std::uint64_t length) {
  const std::uint64_t ring = layout_.ring(peer_);
  around_ring(position, length, [&](std::uint64_t at, std::uint64_t done, std::uint64_t size) {
    std::memcpy(inner_->segment().data() + ring + at, static_cast<const std::byte*>(from) + done,
                size);
    inner_->push(peer_, Bytes{ring + at}, Bytes{size});
  });
}

// --- Sending ---

void Outbound::push(Bytes offset, const void* from, Bytes length) {
  if (abandoned_ || length == Bytes{0}) return;
  const Kind kind = length <= Transport::snapshot ? Kind::copied
                    : from                        ? Kind::elsewhere
                                                  : Kind::of_segment;
  const auto* bytes = static_cast<const std::byte*>(from);
  Post& post = posts_.emplace_back(Post{kind, offset.value(), length.value(), bytes, {}, {}});
  if (kind != Kind::copied) return;
  const std::byte* source = bytes ? bytes : inner_->segment().data() + post.offset;
  std::memcpy(post.copy.data(), source, post.length);
}

bool Outbound::pump() {
  const std::uint64_t before = written_;
  while (released_ > 0 && send_some(posts_.front())) {
    if (posts_.front().length > 0) continue;
    posts_.pop_front();
    --released_;
  }
  if (written_ != before) publish(Cursor::written, written_);
  return written_ != before;
}

/// Sends the post or its next piece; false when there is no room for it.
bool Outbound::send_some(Post& post) {
  const bool refers = post.kind == Kind::of_segment;
  Header header{.offset = post.offset, .length = post.length, .refers = refers};
  if (!refers && post.length > longest_piece)
    header.length = longest_piece - post.offset % word_bytes;  // words show as a whole
  const std::uint64_t size = size_of(header);
  if (written_ + size > peer_cursor(Cursor::taken) + StreamLayout::ring_size) return false;

  if (refers) {  // the data go before the header that announces them
    inner_->push(peer_, Bytes{post.offset}, Bytes{post.length});
    last_reference_ = written_ + size;
  }
  write(written_, &header, sizeof header);
  if (!refers) {
    const std::byte* bytes = post.kind == Kind::copied ? post.copy.data() : post.from;
    write(written_ + sizeof header, bytes, header.length);
  }
  written_ += size;
  post.offset += header.length;
  post.length -= header.length;
  if (post.from) post.from += header.length;
  return true;
}

void Outbound::detach() {
  for (Post& post : posts_) {
    if (post.kind != Kind::elsewhere || post.saved) continue;
    post.saved = std::make_unique_for_overwrite<std::byte[]>(post.length);
    std::memcpy(post.saved.get(), post.from, post.length);
    post.from = post.saved.get();
  }
}

void Outbound::abandon() {
  abandoned_ = true;
  posts_.clear();
  released_ = 0;
  last_reference_ = 0;
}

// --- Receiving ---

bool Inbound::skipped() {
  if (skipped_) return false;
  skipped_ = dice_.skipped(pushes_);
  return skipped_;
}

bool Inbound::take(std::byte* mirror) {
  const std::uint64_t before = taken_;
  while (has_news()) {
    if (!opened_) {
      read(taken_, &header_, sizeof header_);
      delivery_ = dice_.delivery_of(pushes_, Bytes{header_.offset}, Bytes{header_.length});
      opened_ = true;
    }
    if (!passed(delivery_.hold)) break;
    if (delivery_.first > Bytes{0} && delivery_.pause > 0) {
      show(mirror, 0, delivery_.first.value());
      delivery_.hold = delivery_.pause;
      delivery_.pause = 0;
      continue;
    }
    show(mirror, delivery_.resent ? 0 : delivery_.first.value(), header_.length);
    taken_ += size_of(header_);
    ++pushes_;
    opened_ = skipped_ = false;
    if (break_if_due()) break;
  }
  if (taken_ != before) publish(Cursor::taken, taken_);
  return taken_ != before;
}

void Inbound::show(std::byte* mirror, std::uint64_t begin, std::uint64_t end) const {
  std::byte* to = mirror + header_.offset + begin;
  if (header_.refers)
    std::memcpy(to, inner_->link(peer_).segment + header_.offset + begin, end - begin);
  else
    read(taken_ + sizeof(Header) + begin, to, end - begin);
}

bool Inbound::break_if_due() {
  if (broken_) return false;
  broken_ = dice_.broken_after(pushes_);
  if (!broken_ && peer_cursor(Cursor::broken) != 0)
    broken_ = "injected fault: the peer has broken the connection";
  if (broken_) publish(Cursor::broken, 1);
  return broken_.has_value();
}

}  // namespace capstan::faulty
