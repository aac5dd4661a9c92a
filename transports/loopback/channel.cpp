// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/channel.hpp"

#include <cstring>

namespace capstan::loopback {

const std::byte* Channel::Post::source() const {
  if (is_short()) return copy.data();
  return saved ? saved.get() : from;
}

void Channel::Post::save() {
  if (!is_read_late()) return;
  saved = std::make_unique_for_overwrite<std::byte[]>(length.value());
  std::memcpy(saved.get(), from, length.value());
}

void Channel::push(Bytes offset, const std::byte* from, Bytes length) {
  if (length == Bytes{0}) return;
  const std::lock_guard lock{mutex_};
  if (closed_) return;
  Post& post = posts_.emplace_back(Post{offset, length, from, {}, nullptr});
  if (post.is_short()) std::memcpy(post.copy.data(), from, length.value());
}

void Channel::release() {
  const std::lock_guard lock{mutex_};
  released_.store(delivered() + posts_.size(), std::memory_order_release);
  note_awaited();
}

void Channel::note_awaited() {
  std::uint64_t awaited = 0, number = delivered();
  for (const Post& post : posts_)
    if (++number; post.is_read_late()) awaited = number;
  awaited_.store(awaited, std::memory_order_release);
}

void Channel::detach() {
  const std::lock_guard lock{mutex_};
  for (Post& post : posts_) post.save();
  note_awaited();
}

void Channel::close_sender() {
  const std::lock_guard lock{mutex_};
  posts_.resize(waiting());
  for (Post& post : posts_) post.save();
}

void Channel::close_receiver() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  posts_.clear();
  delivered_.store(released(), std::memory_order_release);
}

bool Channel::deliver(std::byte* mirror) {
  if (waiting() == 0) return false;  // without the lock: a release may come later anyway
  const std::lock_guard lock{mutex_};
  bool read_late = false;
  for (std::uint64_t left = waiting(); left > 0; --left) {
    const Post& post = posts_.front();
    std::memcpy(mirror + post.offset.value(), post.source(), post.length.value());
    read_late |= post.is_read_late();
    posts_.pop_front();
  }
  delivered_.store(released(), std::memory_order_release);
  return read_late;
}

}  // namespace capstan::loopback
