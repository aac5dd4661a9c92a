// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "capstan/foreign_type.hpp"
#include "capstan/types.hpp"
#include "core/platform/net/foreign.hpp"

namespace capstan {

/// The type of a message's elements.
struct MessageType {
  /// 1 + DataType; or, of foreign ones, which are u8, 128 + their code; 0: none is known.
  std::uint8_t number = 0;
  std::uint16_t named = 0;  ///< a digest of the name of foreign ones; 0: they have none

  static constexpr std::uint8_t foreign = 128;
  static constexpr MessageType of(std::optional<DataType> type, ForeignType other) {
    if (!type) return {};
    if (other.code == 0) return {static_cast<std::uint8_t>(1 + static_cast<int>(*type))};
    const auto digest = static_cast<std::uint16_t>(other.kind ^ other.kind >> 16U);
    return {static_cast<std::uint8_t>(foreign + other.code),
            static_cast<std::uint16_t>(other.kind != 0 && digest == 0 ? 1 : digest)};
  }
  bool operator==(const MessageType&) const = default;
  bool is_valid() const { return number <= all_data_types().size() || number > foreign; }
  std::optional<DataType> type() const {
    if (number == 0) return std::nullopt;
    return number > foreign ? DataType::u8 : static_cast<DataType>(number - 1);
  }
  /// `elements` is the name of foreign ones, where it is known.
  std::string name(const char* elements = nullptr) const {
    const auto code = static_cast<std::uint8_t>(number > foreign ? number - foreign : 0);
    return number == 0 ? "any type" : to_string(*type(), {code, named, elements});
  }
  /// The key of the name's note; not 0.
  std::uint64_t note() const { return std::uint64_t{number} << 16U | named; }
};

/// The header of each frame between two ranks; for some kinds a payload follows.
struct MessageFrame {
  enum class Kind : std::uint8_t {
    eager,         ///< a whole message
    offer,         ///< a message that stays in the sender's buffer until the receiver reads it
    acknowledged,  ///< to the sender of an offer: the message has been read, or is dropped
    stream,        ///< to the sender of an offer: asks for fragments, as its memory is not read
    fragment,      ///< a piece of a message that was offered, or has begun
    reading,       ///< to the sender of an offer: the receiver's network card continues reading
    begun,         ///< the first piece of a message whose other fragments follow unasked
    timed,         ///< to the sender of such a message: how long it took
  };

  Kind kind = Kind::eager;
  std::uint8_t type_number = 0;  ///< see MessageType
  std::uint16_t type_named = 0;
  std::int32_t tag = 0;
  std::uint64_t size = 0;     ///< of the message
  std::uint32_t payload = 0;  ///< bytes that follow the header
  std::uint32_t shape = 0;    ///< a digest of a tensor's shape, or 0
  // Not of eager messages: short ones have their bytes here.
  std::uint64_t id = 0;  ///< of an offer, or of a message in fragments, numbered by its sender
  /// The address by which the receiver reads an offer. On the sender's host, the address there;
  /// elsewhere, ExposedMemory::address(). If the time of a message that begins unasked is wanted,
  /// the time when it began, in nanoseconds; or the time that it took.
  std::uint64_t address = 0;
  /// The memory that the receiver reads an offer from. On the sender's host, the allocation that
  /// holds it (shared::AllocationId); elsewhere, ExposedMemory::key(). 0: by neither. If a time is
  /// wanted or told: the message's MessageWay.
  std::uint64_t memory = 0;

  MessageType type() const { return {type_number, type_named}; }
};
static_assert(sizeof(MessageFrame) == 48);

/// Refuses a frame of a peer that no peer sends. `ring` are the bytes of its ring.
void check(const MessageFrame& frame, const Foreign& peer, std::uint64_t ring);

/// The bytes that follow a frame, in one range or two, at the sender or where they have arrived.
struct Payload {
  std::span<const std::byte> first{}, second{};

  std::uint64_t size() const { return first.size() + second.size(); }
  void copy_to(std::byte* to) const {
    if (!first.empty()) std::memcpy(to, first.data(), first.size());
    if (!second.empty()) std::memcpy(to + first.size(), second.data(), second.size());
  }
};

}  // namespace capstan
