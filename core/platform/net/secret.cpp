// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/secret.hpp"

#include <sodium.h>

#include <cstring>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/random.hpp"
#include "core/platform/net/raw_bytes.hpp"

namespace capstan {
namespace {

static_assert(crypto_shorthash_siphashx24_BYTES == sizeof(Tag) &&
              crypto_shorthash_siphashx24_KEYBYTES <= sizeof(Secret::Bytes));
static_assert(crypto_auth_KEYBYTES == sizeof(Secret::Bytes) && crypto_auth_BYTES == sizeof(Digest));

void start_sodium() {
  static const int status = sodium_init();
  if (status < 0) {
    throw SystemError("libsodium cannot start: the system's random source (getrandom) fails");
  }
}

template <std::size_t n>
std::array<std::byte, n> hash(std::span<const std::byte> bytes, std::string_view purpose) {
  start_sodium();
  std::array<std::byte, n> out;
  crypto_generichash(raw(out.data()), n, raw(bytes.data()), bytes.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
  return out;
}

std::array<std::byte, 16> fingerprint_bytes(std::string_view text) {
  return hash<16>(std::as_bytes(std::span{text.data(), text.size()}), "capstan fingerprint v1");
}

}  // namespace

Secret Secret::wiped(Bytes&& bytes) {
  Secret secret{bytes};
  sodium_memzero(bytes.data(), bytes.size());
  return secret;
}

Secret Secret::random() {
  return wiped(random_value<Bytes>());
}

Secret Secret::from_text(std::string_view text) {
  return derive(std::as_bytes(std::span{text.data(), text.size()}), "capstan job secret v1");
}

Secret Secret::derive(std::span<const std::byte> material, std::string_view purpose) {
  return wiped(hash<sizeof(Bytes)>(material, purpose));
}

Digest Secret::proof(std::span<const std::byte> message) const {
  Digest out;
  crypto_auth(raw(out.data()), raw(message.data()), message.size(), raw(bytes().data()));
  return out;
}

Tag Secret::tag(std::span<const std::byte> message) const {
  Tag out;
  crypto_shorthash_siphashx24(raw(out.data()), raw(message.data()), message.size(),
                              raw(bytes().data()));
  return out;
}

Secret Secret::child(std::string_view purpose, std::span<const std::byte> context) const {
  start_sodium();
  const auto length = static_cast<std::uint64_t>(purpose.size());
  crypto_generichash_state state;
  Bytes out;
  crypto_generichash_init(&state, raw(bytes().data()), bytes().size(), out.size());
  for (const auto part : {std::as_bytes(std::span{&length, 1}),
                          std::as_bytes(std::span{purpose.data(), purpose.size()}), context})
    crypto_generichash_update(&state, raw(part.data()), part.size());
  crypto_generichash_final(&state, raw(out.data()), out.size());
  sodium_memzero(&state, sizeof state);
  return wiped(std::move(out));
}

bool same_tag(const Tag& a, const Tag& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool same_proof(const Digest& a, const Digest& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_text() {
  return hexadecimal(random_value<Secret::Bytes>());
}

std::string fingerprint(std::string_view text) {
  return hexadecimal(fingerprint_bytes(text));
}

std::uint64_t fingerprint_number(std::string_view text) {
  std::uint64_t number;
  std::memcpy(&number, fingerprint_bytes(text).data(), sizeof number);
  return number;
}

}  // namespace capstan
