// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/wire.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan::wire {
namespace {

std::vector<std::byte> value_of(ByteReader& r) {
  const auto bytes = r.rest();
  if (bytes.size() > max_value) bad_content(fmt::format("a value of {} bytes", bytes.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void write(ByteWriter& w, const Membership& m) {
  w.number(m.rank);
  w.number(m.size);
  w.text(m.scope, max_scope);
}
void write(ByteWriter& w, const Failure& m) {
  write(w, Refusal{m.reason, m.text});
}
void write(ByteWriter& w, const Put& m) {
  w.text(m.key, max_key);
  w.raw(m.value);
}
void write(ByteWriter& w, const Get& m) {
  w.text(m.key, max_key);
  w.number(m.milliseconds);
}
void write(ByteWriter& w, const TryGet& m) {
  w.text(m.key, max_key);
}
void write(ByteWriter& w, const Value& m) {
  w.raw(m.value);
}
void write(ByteWriter&, const Done&) {}
void write(ByteWriter&, const Absent&) {}

// Braces fix the order in which the fields are read.
void read(ByteReader& r, Membership& m) {
  m = {r.signed_number(), r.signed_number(), r.text(0, max_scope)};
}
void read(ByteReader& r, Failure& m) {
  Refusal same{};
  read(r, same);
  m = {same.reason, std::move(same.text)};
}
void read(ByteReader& r, Put& m) {
  m = {r.text(1, max_key), value_of(r)};
}
void read(ByteReader& r, Get& m) {
  m = {r.text(1, max_key), r.number<std::uint32_t>()};
}
void read(ByteReader& r, TryGet& m) {
  m = {r.text(1, max_key)};
}
void read(ByteReader& r, Value& m) {
  m = {value_of(r)};
}
void read(ByteReader&, Done&) {}
void read(ByteReader&, Absent&) {}

std::vector<std::byte> encode(const StoreMessage& message) {
  return encode_message(protocol, message);
}

StoreMessage decode(std::uint16_t type, std::span<const std::byte> payload) {
  return decode_message<StoreMessage>(type, payload);
}

void Conversation::seal(SealedPair seals, std::size_t limit) {
  seals_ = std::move(seals);
  reader_.set_limit(limit);
}

std::vector<std::byte> Conversation::encode(const StoreMessage& message) {
  const auto frame = wire::encode(message);
  if (!seals_) return frame;
  ByteWriter inner;
  inner.number(static_cast<std::uint16_t>(message.index() + 1));
  inner.raw(std::span{frame}.subspan(PayloadReader::header_size));
  return framed(protocol, sealed_type, seals_->out.seal(inner.take()));
}

std::optional<StoreMessage> Conversation::take() {
  const auto payload = reader_.take_payload();
  if (!payload) return std::nullopt;
  if (!seals_) return decode(payload->type, payload->bytes);
  if (payload->type != sealed_type) bad_content("a message in clear where all are sealed");
  const auto opened = seals_->in.open(payload->bytes);
  ByteReader inner{opened};
  const auto type = inner.number<std::uint16_t>();
  return decode(type, inner.rest());
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

}  // namespace capstan::wire
