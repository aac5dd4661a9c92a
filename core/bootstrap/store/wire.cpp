#include "core/bootstrap/store/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

#include "capstan/error.hpp"

namespace capstan::wire {
namespace {

constexpr std::array magic{std::byte{'C'}, std::byte{'P'}, std::byte{'S'}, std::byte{'T'}};

class Writer {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }
  void number(std::int32_t value) { number(static_cast<std::uint32_t>(value)); }
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view text, std::size_t most) {
    const auto cut = text.substr(0, most);
    number(static_cast<std::uint16_t>(cut.size()));
    raw(std::as_bytes(std::span{cut.data(), cut.size()}));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

[[noreturn]] void bad_content(const std::string& text) {
  throw Malformed(Malformed::Kind::bad_content, text);
}

/// Reads a payload; every read checks that the bytes are there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> raw(std::size_t count) {
    if (rest_.size() < count) bad_content("a message ends too early");
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
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
  std::array<std::byte, 32> block() {
    std::array<std::byte, 32> out;
    std::ranges::copy(raw(out.size()), out.begin());
    return out;
  }
  std::string text(std::size_t least, std::size_t most) {
    const std::size_t size = number<std::uint16_t>();
    if (size < least || size > most) bad_content(fmt::format("a text of {} bytes", size));
    const auto bytes = raw(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void expect_end() const {
    if (!rest_.empty()) bad_content(fmt::format("{} bytes too many", rest_.size()));
  }

 private:
  std::span<const std::byte> rest_;
};

void write(Writer& w, const Hello& m) {
  w.raw(m.nonce);
}
void write(Writer& w, const Challenge& m) {
  w.raw(m.nonce);
}
void write(Writer& w, const Join& m) {
  w.raw(m.proof);
  w.number(m.rank);
  w.number(m.size);
  w.text(m.scope, max_scope);
}
void write(Writer& w, const Welcome& m) {
  w.raw(m.proof);
}
void write(Writer& w, const Refusal& m) {
  w.number(static_cast<std::uint16_t>(m.reason));
  w.text(m.text, max_text);
}
void write(Writer& w, const Failure& m) {
  write(w, Refusal{m.reason, m.text});
}
void write(Writer& w, const Put& m) {
  w.text(m.key, max_key);
  w.raw(m.value);
}
void write(Writer& w, const Get& m) {
  w.text(m.key, max_key);
  w.number(m.milliseconds);
}
void write(Writer& w, const TryGet& m) {
  w.text(m.key, max_key);
}
void write(Writer& w, const Value& m) {
  w.raw(m.value);
}
void write(Writer&, const Done&) {}
void write(Writer&, const Absent&) {}

std::vector<std::byte> value_of(Reader& r) {
  const auto bytes = r.rest();
  if (bytes.size() > max_value) bad_content(fmt::format("a value of {} bytes", bytes.size()));
  return {bytes.begin(), bytes.end()};
}

Reason reason_of(Reader& r) {
  const auto code = r.number<std::uint16_t>();
  if (code > static_cast<std::uint16_t>(Reason::timed_out)) {
    bad_content(fmt::format("unknown reason {}", code));
  }
  return static_cast<Reason>(code);
}

// Braces fix the order in which the fields are read.
void read(Reader& r, Hello& m) {
  m = {r.block()};
}
void read(Reader& r, Challenge& m) {
  m = {r.block()};
}
void read(Reader& r, Join& m) {
  m = {r.block(), r.signed_number(), r.signed_number(), r.text(0, max_scope)};
}
void read(Reader& r, Welcome& m) {
  m = {r.block()};
}
void read(Reader& r, Refusal& m) {
  m = {reason_of(r), r.text(0, max_text)};
}
void read(Reader& r, Failure& m) {
  m = {reason_of(r), r.text(0, max_text)};
}
void read(Reader& r, Put& m) {
  m = {r.text(1, max_key), value_of(r)};
}
void read(Reader& r, Get& m) {
  m = {r.text(1, max_key), r.number<std::uint32_t>()};
}
void read(Reader& r, TryGet& m) {
  m = {r.text(1, max_key)};
}
void read(Reader& r, Value& m) {
  m = {value_of(r)};
}
void read(Reader&, Done&) {}
void read(Reader&, Absent&) {}

template <std::size_t index = 0>
Message decode_as(std::size_t wanted, Reader& r) {
  if constexpr (index == std::variant_size_v<Message>) {
    bad_content(fmt::format("unknown message type {}", wanted + 1));
  } else {
    if (wanted != index) return decode_as<index + 1>(wanted, r);
    std::variant_alternative_t<index, Message> message{};
    read(r, message);
    r.expect_end();
    return message;
  }
}

}  // namespace

std::vector<std::byte> transcript(std::string_view speaker, const Nonce& client,
                                  const Nonce& server, const Join& join) {
  Writer w;
  w.text(speaker, max_text);
  w.raw(client);
  w.raw(server);
  w.number(join.rank);
  w.number(join.size);
  w.text(join.scope, max_scope);
  return w.take();
}

std::vector<std::byte> encode(const Message& message) {
  Writer body;
  std::visit([&](const auto& m) { write(body, m); }, message);
  const auto payload = body.take();
  Writer frame;
  frame.raw(magic);
  frame.number(version);
  frame.number(static_cast<std::uint16_t>(message.index() + 1));
  frame.number(static_cast<std::uint32_t>(payload.size()));
  frame.raw(payload);
  return frame.take();
}

Message decode(std::uint16_t type, std::span<const std::byte> payload) {
  Reader r{payload};
  // Type 0 wraps to an index that no alternative has.
  return decode_as(static_cast<std::size_t>(type) - 1, r);
}

void check_key(std::string_view key) {
  if (!key.empty() && key.size() <= max_key) return;
  throw InvalidArgument(fmt::format("a store key of {} bytes (\"{}...\"): use 1 to {} bytes",
                                    key.size(), key.substr(0, 32), max_key));
}

void check_value(std::string_view key, std::span<const std::byte> value) {
  if (value.size() <= max_value) return;
  throw InvalidArgument(fmt::format(
      "put(\"{}\"): a value of {} bytes; a store takes up to {}: cut it into several keys", key,
      value.size(), max_value));
}

void FrameReader::parse_header() {
  Reader r{buffer_};
  if (!std::ranges::equal(r.raw(magic.size()), magic)) {
    throw Malformed(Malformed::Kind::not_capstan, "the bytes are not the Capstan store protocol");
  }
  if (const auto v = r.number<std::uint16_t>(); v != version) {
    throw Malformed(Malformed::Kind::other_version,
                    fmt::format("version {} of the Capstan store protocol; this program speaks "
                                "version {}: use the same release of Capstan on all ranks",
                                v, version));
  }
  type_ = r.number<std::uint16_t>();
  const std::size_t length = r.number<std::uint32_t>();
  if (length > limit_) {
    bad_content(fmt::format("a message of {} bytes where {} are the most", length, limit_));
  }
  buffer_.resize(length);
}

void FrameReader::commit(std::size_t count) {
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

std::optional<Message> FrameReader::take() {
  if (!complete_) return std::nullopt;
  const auto payload = std::exchange(buffer_, std::vector<std::byte>(header_size));
  filled_ = 0;
  in_payload_ = complete_ = false;
  return decode(type_, payload);
}

}  // namespace capstan::wire
