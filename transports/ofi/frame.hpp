// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "transports/ofi/ofi_address.hpp"
#include "transports/ofi/ofi_endpoint.hpp"

namespace capstan::ofi {

/// A message of at most `frame_size` bytes that carries small pushes: a header, then records.
///
///   header | record, bytes, padding to 8 | record, ... | ...
///
/// Frames of kind `data` are numbered from 1 for each pair of ranks and applied in that order. A
/// receiver reports in its own frames how many it has applied (`applied`). A sender has at most a
/// window of frames in flight that are not reported as applied, so that no receiver is overrun.
///
/// Each frame carries a keyed hash of its bytes. The key is derived for the direction between two
/// ranks, so strangers can neither make nor change frames; those that they repeat are recognised by
/// their numbers, or say nothing new.
inline constexpr std::size_t frame_size = 8192;

struct FrameHeader {
  enum class Kind : std::uint16_t {
    hello = 1,    // followed by the RemoteMemory of the receiver's mirror; no number
    data,         // followed by records
    acknowledge,  // nothing follows; `number` is the frame whose application is queried, or 0
  };
  static constexpr std::uint16_t goodbye = 1;      // flag: the last frame; the sender leaves
  static constexpr std::uint16_t answer_soon = 2;  // flag: report when this frame has been applied

  Tag tag{};  // keyed hash of all that follows: see Frame::seal
  std::int32_t sender = 0;
  Kind kind = Kind::data;
  std::uint16_t flags = 0;
  std::uint64_t number = 0;
  std::uint64_t applied = 0;
};
static_assert(std::has_unique_object_representations_v<FrameHeader>, "sent as its bytes");

/// Announces bytes for the mirror, which either follow or arrive in a tagged message of their own.
struct Record {
  static constexpr std::uint64_t tagged = std::uint64_t{1}
                                          << 63;  // flag in `length`: a tagged message

  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A message in flight or being filled. Its memory belongs to the pool that made it.
struct Frame : Operation {
  Frame(std::byte* memory, void* with) : Operation(Kind::send), data(memory), descriptor(with) {}

  FrameHeader header() const {
    FrameHeader result;
    std::memcpy(&result, data, sizeof(result));
    return result;
  }
  void set_header(const FrameHeader& header) { std::memcpy(data, &header, sizeof(header)); }
  /// Makes the frame one that who has the key made. To be called last.
  void seal(const Secret& key) {
    const Tag tag = key.tag(sealed_bytes({data, size}));
    std::memcpy(data, tag.data(), tag.size());
  }
  /// Whether `bytes`, at least a header, were sealed with this key.
  static bool is_sealed(std::span<const std::byte> bytes, const Secret& key) {
    Tag tag;
    std::memcpy(tag.data(), bytes.data(), tag.size());
    return same_tag(tag, key.tag(sealed_bytes(bytes)));
  }
  std::size_t room() const { return frame_size - size; }
  void clear() { size = sizeof(FrameHeader); }

  /// Appends a record whose bytes travel in a tagged message.
  void announce(Record record) {
    record.length |= Record::tagged;
    std::memcpy(data + size, &record, sizeof(record));
    size += sizeof(record);
  }
  /// Appends a record and its bytes. There must be room for them.
  void append(Record record, const std::byte* bytes) {
    std::memcpy(data + size, &record, sizeof(record));
    size += sizeof(record);
    std::memcpy(data + size, bytes, record.length);
    size += (record.length + 7) / 8 * 8;
  }

  static std::span<const std::byte> sealed_bytes(std::span<const std::byte> frame) {
    return frame.subspan(sizeof(Tag));
  }

  std::byte* const data;
  void* const descriptor;
  std::size_t size = sizeof(FrameHeader);
};

/// Reads the records of a frame one after the other.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> frame)
      : rest_(frame.subspan(sizeof(FrameHeader))) {}

  struct Item {
    std::uint64_t offset;
    std::uint64_t length;
    const std::byte* bytes;  // null: they arrive in a tagged message
  };
  /// The next record; nothing at the end, or if malformed: not whole, or not within `segment`
  /// bytes.
  std::optional<Item> next(std::uint64_t segment) {
    if (rest_.empty()) return std::nullopt;
    Record record;
    if (rest_.size() < sizeof(record)) return fail();
    std::memcpy(&record, rest_.data(), sizeof(record));
    rest_ = rest_.subspan(sizeof(record));
    const bool tagged = (record.length & Record::tagged) != 0;
    const std::uint64_t length = record.length & ~Record::tagged;
    if (record.offset > segment || length > segment - record.offset) return fail();
    if (tagged) return Item{record.offset, length, nullptr};
    const std::uint64_t padded = (length + 7) / 8 * 8;
    if (padded > rest_.size()) return fail();
    const Item item{record.offset, length, rest_.data()};
    rest_ = rest_.subspan(padded);
    return item;
  }
  bool malformed() const { return malformed_; }

 private:
  std::nullopt_t fail() {
    malformed_ = true;
    return std::nullopt;
  }

  std::span<const std::byte> rest_;
  bool malformed_ = false;
};

}  // namespace capstan::ofi
