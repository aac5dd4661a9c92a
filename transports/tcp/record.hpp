// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/platform/net/record_seal.hpp"
#include "transports/tcp/frame.hpp"

namespace capstan::tcp {

/// Where the wire is authenticated or encrypted, the stream of frames is cut into records without
/// regard to its frames:
///
///   u32 length of the payload | payload, sealed | tag
///
/// Long ones, so that they cost little.
inline constexpr std::size_t largest_record = 64 * 1024;
inline constexpr std::size_t record_overhead = sizeof(std::uint32_t) + RecordSeal::tag_bytes;

/// The seals of both directions of a connection, seen from one end.
struct RecordSeals {
  RecordSeal out, in;
};

/// One record at a time that is being sent.
class RecordSender {
 public:
  explicit RecordSender(const RecordSeal& seal) : seal_(seal) {}

  /// Whether the last record has been sent whole.
  bool empty() const { return sent_ == record_.size(); }
  /// Makes a record of these bytes, at most `largest_record`.
  void fill(std::span<const iovec> ranges);
  std::span<const std::byte> unsent() const { return std::span{record_}.subspan(sent_); }
  void advance(std::size_t count) { sent_ += count; }
  /// The length of its payload.
  std::uint64_t payload() const { return record_.size() - record_overhead; }

 private:
  RecordSeal seal_;
  std::vector<std::byte> record_;
  std::size_t sent_ = 0;
};

/// Collects records.
class RecordReceiver {
 public:
  /// The bytes in front of each payload that may be overwritten.
  static constexpr std::size_t front = FrameDecoder::most_left;

  explicit RecordReceiver(const RecordSeal& seal);

  /// Where the next bytes go; never empty.
  std::span<std::byte> space() { return std::span{buffer_}.subspan(end_); }
  void commit(std::size_t count) { end_ += count; }
  /// The payload of the next record, if that is complete: valid until the next call. Throws
  /// MalformedMessage.
  std::optional<std::span<std::byte>> next();

 private:
  std::optional<std::span<std::byte>> none_yet();

  RecordSeal seal_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = front, end_ = front;  // of what has not been handed out
};

}  // namespace capstan::tcp
