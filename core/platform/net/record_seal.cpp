// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/record_seal.hpp"

#include <sodium.h>

#include <array>
#include <cstring>

#include "core/platform/net/raw_bytes.hpp"

namespace capstan {
namespace {

static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == sizeof(Secret::Bytes) &&
              crypto_aead_chacha20poly1305_ietf_ABYTES == RecordSeal::tag_bytes);

using AeadNonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

AeadNonce nonce_of(std::uint64_t number) {
  AeadNonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

/// Where there is nothing, too, libsodium wants an address.
unsigned char* address_of(std::span<std::byte> bytes) {
  static unsigned char nothing;
  return bytes.empty() ? &nothing : raw(bytes.data());
}

/// The parts of a record that are encrypted, and those that are authenticated only.
struct Parts {
  std::span<std::byte> hidden, shown;
  Parts(std::span<std::byte> record, RecordSeal::Mode mode) {
    (mode == RecordSeal::Mode::encrypted ? hidden : shown) = record;
  }
};

}  // namespace

void RecordSeal::seal(std::span<std::byte> record, std::span<std::byte, tag_bytes> tag) {
  const Parts parts{record, mode_};
  const AeadNonce nonce = nonce_of(number_++);
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      address_of(parts.hidden), raw(tag.data()), nullptr, address_of(parts.hidden),
      parts.hidden.size(), address_of(parts.shown), parts.shown.size(), nullptr, nonce.data(),
      raw(key_.bytes().data()));
}

bool RecordSeal::open(std::span<std::byte> record, std::span<const std::byte, tag_bytes> tag) {
  const Parts parts{record, mode_};
  const AeadNonce nonce = nonce_of(number_++);
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             address_of(parts.hidden), nullptr, address_of(parts.hidden), parts.hidden.size(),
             raw(tag.data()), address_of(parts.shown), parts.shown.size(), nonce.data(),
             raw(key_.bytes().data())) == 0;
}

}  // namespace capstan
