// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace capstan::tcp {
namespace {

constexpr std::size_t records_at_once = 4;  // with one system call

}  // namespace

void RecordSender::fill(std::span<const iovec> ranges) {
  record_.resize(sizeof(std::uint32_t));
  for (const iovec& range : ranges) {
    const auto* bytes = static_cast<const std::byte*>(range.iov_base);
    record_.insert(record_.end(), bytes, bytes + range.iov_len);
  }
  const auto length = static_cast<std::uint32_t>(record_.size() - sizeof(std::uint32_t));
  std::memcpy(record_.data(), &length, sizeof length);
  record_.resize(record_.size() + RecordSeal::tag_bytes);
  const auto payload = std::span{record_}.subspan(sizeof length);
  seal_.seal(payload.first(length), payload.last<RecordSeal::tag_bytes>());
  sent_ = 0;
}

RecordReceiver::RecordReceiver(const RecordSeal& seal)
    : seal_(seal), buffer_(front + records_at_once * (largest_record + record_overhead)) {}

std::optional<std::span<std::byte>> RecordReceiver::next() {
  std::uint32_t length = 0;
  if (end_ - begin_ < sizeof length) return none_yet();
  std::memcpy(&length, buffer_.data() + begin_, sizeof length);
  if (length == 0 || length > largest_record)
    bad_content(fmt::format("a record of {} bytes", length));
  if (end_ - begin_ < length + record_overhead) return none_yet();
  const auto record = std::span{buffer_}.subspan(begin_ + sizeof length, length);
  const auto tag = std::span{buffer_}.subspan(begin_ + sizeof length + length);
  begin_ += length + record_overhead;
  if (!seal_.open(record, tag.first<RecordSeal::tag_bytes>()))
    bad_content("a record that somebody else has made, changed or repeated");
  return record;
}

/// Moves what is left to the begin.
std::optional<std::span<std::byte>> RecordReceiver::none_yet() {
  std::memmove(buffer_.data() + front, buffer_.data() + begin_, end_ - begin_);
  end_ = front + (end_ - begin_);
  begin_ = front;
  return std::nullopt;
}

}  // namespace capstan::tcp
