// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/message.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {

void bad_content(const std::string& text) {
  throw MalformedMessage(MalformedMessage::Kind::bad_content, text);
}

/// Not inlined: g++ 12 then warns of a vector whose memory it knows.
void ByteWriter::raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ByteWriter::text(std::string_view text, std::size_t most) {
  const auto cut = text.substr(0, most);
  number(static_cast<std::uint16_t>(cut.size()));
  raw(std::as_bytes(std::span{cut.data(), cut.size()}));
}

std::span<const std::byte> ByteReader::raw(std::size_t count) {
  if (rest_.size() < count) bad_content("a message ends too early");
  const auto bytes = rest_.first(count);
  rest_ = rest_.subspan(count);
  return bytes;
}

std::array<std::byte, 32> ByteReader::block() {
  std::array<std::byte, 32> out;
  std::ranges::copy(raw(out.size()), out.begin());
  return out;
}

std::string ByteReader::text(std::size_t least, std::size_t most) {
  const std::size_t size = number<std::uint16_t>();
  if (size < least || size > most) bad_content(fmt::format("a text of {} bytes", size));
  const auto bytes = raw(size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void ByteReader::expect_end() const {
  if (!rest_.empty()) bad_content(fmt::format("{} bytes too many", rest_.size()));
}

void PayloadReader::parse_header() {
  ByteReader r{buffer_};
  if (!std::ranges::equal(r.raw(protocol_->magic.size()),
                          std::as_bytes(std::span{protocol_->magic}))) {
    throw MalformedMessage(MalformedMessage::Kind::other_protocol,
                           fmt::format("the bytes are not {}", protocol_->name));
  }
  if (const auto version = r.number<std::uint16_t>(); version != protocol_->version) {
    throw MalformedMessage(
        MalformedMessage::Kind::other_version,
        fmt::format("version {} of {}; this program speaks version {}: use the same release of "
                    "Capstan on all ranks",
                    version, protocol_->name, protocol_->version));
  }
  type_ = r.number<std::uint16_t>();
  const std::size_t length = r.number<std::uint32_t>();
  if (length > limit_) {
    bad_content(fmt::format("a message of {} bytes where {} are the most", length, limit_));
  }
  buffer_.resize(length);
}

void PayloadReader::commit(std::size_t count) {
  filled_ += count;
  if (filled_ < buffer_.size()) return;
  if (!in_payload_) {
    parse_header();
    in_payload_ = true;
    filled_ = 0;
    if (!buffer_.empty()) return;
  }
  complete_ = true;
}

std::optional<PayloadReader::Payload> PayloadReader::take_payload() {
  if (!complete_) return std::nullopt;
  filled_ = 0;
  in_payload_ = complete_ = false;
  return Payload{type_, std::exchange(buffer_, std::vector<std::byte>(header_size))};
}

std::vector<std::byte> framed(const ProtocolId& protocol, std::uint16_t type,
                              std::span<const std::byte> payload) {
  ByteWriter out;
  out.raw(std::as_bytes(std::span{protocol.magic}));
  out.number(protocol.version);
  out.number(type);
  out.number(static_cast<std::uint32_t>(payload.size()));
  out.raw(payload);
  return out.take();
}

}  // namespace capstan
