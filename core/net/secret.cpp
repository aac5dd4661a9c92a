#include "core/net/secret.hpp"

#include <sodium.h>

#include "capstan/error.hpp"

namespace capstan {
namespace {

static_assert(crypto_auth_KEYBYTES == 32 && crypto_auth_BYTES == 32);

void start_sodium() {
  static const int status = sodium_init();
  if (status < 0) {
    throw SystemError("libsodium cannot start: the system's random source (getrandom) fails");
  }
}

unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

template <std::size_t n>
std::array<std::byte, n> hash(std::string_view text, std::string_view purpose) {
  start_sodium();
  std::array<std::byte, n> out;
  crypto_generichash(raw(out.data()), n, reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), reinterpret_cast<const unsigned char*>(purpose.data()),
                     purpose.size());
  return out;
}

}  // namespace

Secret Secret::random() {
  return Secret{random_bytes()};
}

Secret Secret::from_text(std::string_view text) {
  return Secret{hash<32>(text, "capstan job secret v1")};
}

Secret::~Secret() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

Secret::Bytes Secret::proof(std::span<const std::byte> message) const {
  Bytes out;
  crypto_auth(raw(out.data()), raw(message.data()), message.size(), raw(bytes_.data()));
  return out;
}

bool same_proof(const Secret::Bytes& a, const Secret::Bytes& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Secret::Bytes random_bytes() {
  start_sodium();
  Secret::Bytes out;
  randombytes_buf(out.data(), out.size());
  return out;
}

std::string random_text() {
  const auto bytes = random_bytes();
  std::array<char, 2 * bytes.size() + 1> hex;
  sodium_bin2hex(hex.data(), hex.size(), raw(bytes.data()), bytes.size());
  return hex.data();
}

std::string fingerprint(std::string_view text) {
  const auto digest = hash<16>(text, "capstan fingerprint v1");
  std::array<char, 2 * digest.size() + 1> hex;
  sodium_bin2hex(hex.data(), hex.size(), raw(digest.data()), digest.size());
  return hex.data();
}

}  // namespace capstan
