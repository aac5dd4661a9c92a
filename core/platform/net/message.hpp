// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Messages over a stream socket. A protocol is a std::variant of its messages; for each of them it
/// has two functions,
///
///   void write(ByteWriter&, const M&);    // the payload
///   void read(ByteReader&, M&);           // throws MalformedMessage
///
/// On the wire a message is a header of 12 bytes,
///
///   magic (4 bytes) | u16 version | u16 type | u32 length of the payload        (little-endian)
///
/// and the payload. The type is the message's position in the variant, counted from 1.
namespace capstan {

/// The first fields of every header of a protocol.
struct ProtocolId {
  std::array<char, 4> magic;
  std::uint16_t version;
  std::string_view name;  ///< for errors: "the Capstan store protocol"
};

/// Bytes that do not follow the protocol.
class MalformedMessage : public std::runtime_error {
 public:
  enum class Kind { other_protocol, other_version, bad_content };
  MalformedMessage(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// Throws MalformedMessage of this kind.
[[noreturn]] void bad_content(const std::string& text);

/// Writes numbers with the lowest byte first.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void number(std::int32_t value) { number(static_cast<std::uint32_t>(value)); }
  void raw(std::span<const std::byte> bytes);
  /// Writes the text's length in two bytes, and the text, cut to `most` bytes.
  void text(std::string_view text, std::size_t most);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads the bytes of a ByteWriter. Every function throws MalformedMessage when bytes are missing.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> raw(std::size_t count);
  std::span<const std::byte> rest() { return raw(rest_.size()); }
  template <std::unsigned_integral T>
  T number() {
    std::uint64_t value = 0;
    const auto bytes = raw(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  std::int32_t signed_number() { return static_cast<std::int32_t>(number<std::uint32_t>()); }
  std::array<std::byte, 32> block();
  std::string text(std::size_t least, std::size_t most);
  void expect_end() const;

 private:
  std::span<const std::byte> rest_;
};

/// Collects one message at a time. Never holds more than a header or a payload within `limit`, and
/// never takes more of a stream than belongs to the message. The caller reads into `space()`, tells
/// the number of bytes with `commit()`, then asks `take()`. After MalformedMessage the reader is
/// unusable.
class PayloadReader {
 public:
  static constexpr std::size_t header_size = 12;
  struct Payload {
    std::uint16_t type;
    std::vector<std::byte> bytes;
  };

  PayloadReader(const ProtocolId& protocol, std::size_t limit)
      : protocol_(&protocol), limit_(limit), buffer_(header_size) {}

  void set_limit(std::size_t limit) { limit_ = limit; }
  /// Where the next bytes go; never empty.
  std::span<std::byte> space() { return std::span{buffer_}.subspan(filled_); }
  /// Throws MalformedMessage if a header is complete and wrong.
  void commit(std::size_t count);
  /// The payload, if it is complete.
  std::optional<Payload> take_payload();
  /// True between the first byte of a message and its last.
  bool inside_message() const { return filled_ > 0 || in_payload_; }

 private:
  void parse_header();

  const ProtocolId* protocol_;
  std::size_t limit_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
  std::uint16_t type_ = 0;
  bool in_payload_ = false;
  bool complete_ = false;
};

/// A header and its payload.
std::vector<std::byte> framed(const ProtocolId& protocol, std::uint16_t type,
                              std::span<const std::byte> payload);

/// A whole message, header included.
template <class Message>
std::vector<std::byte> encode_message(const ProtocolId& protocol, const Message& message) {
  ByteWriter payload;
  std::visit([&](const auto& m) { write(payload, m); }, message);
  return framed(protocol, static_cast<std::uint16_t>(message.index() + 1), payload.take());
}

/// Throws MalformedMessage.
template <class Message, std::size_t index = 0>
Message decode_message(std::uint16_t type, std::span<const std::byte> payload) {
  if constexpr (index == std::variant_size_v<Message>) {
    bad_content("unknown message type " + std::to_string(type));
  } else {
    if (type != index + 1) return decode_message<Message, index + 1>(type, payload);
    ByteReader reader{payload};
    std::variant_alternative_t<index, Message> message{};
    read(reader, message);
    reader.expect_end();
    return message;
  }
}

}  // namespace capstan
