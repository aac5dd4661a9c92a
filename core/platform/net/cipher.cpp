// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/cipher.hpp"

#include <sodium.h>

#include <algorithm>

#include "core/platform/net/random.hpp"
#include "core/platform/net/raw_bytes.hpp"

namespace capstan {
namespace {

constexpr std::size_t nonce_bytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
                      tag_bytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(sizeof(Secret::Bytes) == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

}  // namespace

std::vector<std::byte> encrypt(const Secret& secret, std::span<const std::byte> data,
                               std::string_view context) {
  const auto nonce = random_value<std::array<std::byte, nonce_bytes>>();
  std::vector<std::byte> encrypted(nonce_bytes + data.size() + tag_bytes);
  std::ranges::copy(nonce, encrypted.begin());
  crypto_aead_xchacha20poly1305_ietf_encrypt(
      raw(encrypted.data() + nonce_bytes), nullptr, raw(data.data()), data.size(),
      raw(context.data()), context.size(), nullptr, raw(nonce.data()), raw(secret.bytes().data()));
  return encrypted;
}

std::optional<std::vector<std::byte>> decrypt(const Secret& secret,
                                              std::span<const std::byte> encrypted,
                                              std::string_view context) {
  if (encrypted.size() < nonce_bytes + tag_bytes) return std::nullopt;
  const auto nonce = encrypted.first(nonce_bytes), rest = encrypted.subspan(nonce_bytes);
  std::vector<std::byte> data(rest.size() - tag_bytes);
  const int status = crypto_aead_xchacha20poly1305_ietf_decrypt(
      raw(data.data()), nullptr, nullptr, raw(rest.data()), rest.size(), raw(context.data()),
      context.size(), raw(nonce.data()), raw(secret.bytes().data()));
  if (status != 0) return std::nullopt;
  return data;
}

}  // namespace capstan
