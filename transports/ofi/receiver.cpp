// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/receiver.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <atomic>
#include <cstring>

#include "transports/transport.hpp"

namespace capstan::ofi {
namespace {

/// Copies aligned words of 8 bytes with release order, so that a reader that polls one gets it
/// whole and sees all bytes copied before it. Flags are short and aligned; other ranges are not
/// polled.
void copy_words(std::byte* to, const std::byte* from, std::size_t size) {
  const auto unaligned = reinterpret_cast<std::uintptr_t>(to) % 8;
  if (unaligned != 0 || size > Transport::snapshot.value()) {
    std::memcpy(to, from, size);
    return;
  }
  for (; size >= 8; to += 8, from += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(to)}.store(
        word, std::memory_order_release);
  }
  std::memcpy(to, from, size);
}

}  // namespace

Receiver::Receiver(OfiEndpoint& endpoint, FramePool& pool, Route route)
    : endpoint_(endpoint),
      pool_(pool),
      route_(route),
      landing_operation_(Operation::Kind::landing, route.peer) {}

void Receiver::take(Frame& frame, std::size_t size) {
  const FrameHeader header = frame.header();
  if (header.number != taken_ + 1) {
    violation_ = fmt::format("its message {} came where {} was due", header.number, taken_ + 1);
    return pool_.give_back(frame);
  }
  ++taken_;
  if ((header.flags & FrameHeader::answer_soon) != 0) query(header.number);
  held_.push_back({&frame, size});
}

void Receiver::landed(bool well) {
  landing_ = false;
  if (!well) violation_ = "its data were cut off";
}

bool Receiver::answer_due() {
  if (asked_ <= answered_ || applied_ < asked_) return false;
  answered_ = asked_;
  return true;
}

long Receiver::advance() {
  while (!held_.empty() && !landing_ && !violation_) {
    const long result = apply_front();
    if (result != 0) return result == -FI_EAGAIN ? 0 : result;
  }
  return 0;
}

/// Applies the first frame up to its end or to the next tagged message.
long Receiver::apply_front() {
  const Held& front = held_.front();
  if (!reader_) reader_.emplace(std::span<const std::byte>{front.frame->data, front.size});
  while (next_ || (next_ = reader_->next(route_.segment))) {
    if (!next_->bytes) return post_landing(*next_);
    copy_words(route_.mirror + next_->offset, next_->bytes, next_->length);
    next_.reset();
  }
  if (reader_->malformed()) violation_ = "it sent something that cannot be understood";
  finish_front();
  return 0;
}

long Receiver::post_landing(const RecordReader::Item& item) {
  const std::uint64_t tag =
      static_cast<std::uint64_t>(route_.peer.value()) << 40 | ((landings_ + 1) & 0xff'ffff'ffff);
  const long result =
      endpoint_.receive_tagged(route_.mirror + item.offset, item.length, route_.descriptor,
                               route_.address, tag, landing_operation_);
  if (result != 0) return result;
  ++landings_;
  landing_ = true;
  next_.reset();
  return 0;
}

void Receiver::finish_front() {
  Frame& frame = *held_.front().frame;
  left_ |= (frame.header().flags & FrameHeader::goodbye) != 0;
  ++applied_;
  reader_.reset();
  held_.pop_front();
  pool_.give_back(frame);
}

}  // namespace capstan::ofi
