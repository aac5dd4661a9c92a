// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/sealed.hpp"

#include "core/platform/net/message.hpp"
#include "core/platform/net/raw_bytes.hpp"

namespace capstan {
namespace {

constexpr std::size_t header_size = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t tag_size = crypto_secretstream_xchacha20poly1305_ABYTES;
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == sizeof(Secret::Bytes));

}  // namespace

Sealer::Sealer(const Secret& key) : header_(header_size) {
  crypto_secretstream_xchacha20poly1305_init_push(&state_, raw(header_.data()),
                                                  raw(key.bytes().data()));
}

Sealer::~Sealer() {
  sodium_memzero(&state_, sizeof state_);
}

std::vector<std::byte> Sealer::seal(std::span<const std::byte> message) {
  std::vector<std::byte> sealed = std::exchange(header_, {});
  const std::size_t before = sealed.size();
  sealed.resize(before + message.size() + tag_size);
  crypto_secretstream_xchacha20poly1305_push(&state_, raw(sealed.data() + before), nullptr,
                                             raw(message.data()), message.size(), nullptr, 0, 0);
  return sealed;
}

Unsealer::~Unsealer() {
  sodium_memzero(&state_, sizeof state_);
}

std::vector<std::byte> Unsealer::open(std::span<const std::byte> sealed) {
  if (!started_) {
    if (sealed.size() < header_size) bad_content("a sealed message without a header");
    crypto_secretstream_xchacha20poly1305_init_pull(&state_, raw(sealed.data()),
                                                    raw(key_.bytes().data()));
    sealed = sealed.subspan(header_size);
    started_ = true;
  }
  if (sealed.size() < tag_size) bad_content("a sealed message without a seal");
  std::vector<std::byte> message(sealed.size() - tag_size);
  if (crypto_secretstream_xchacha20poly1305_pull(&state_, raw(message.data()), nullptr, nullptr,
                                                 raw(sealed.data()), sealed.size(), nullptr,
                                                 0) != 0)
    bad_content("a message that was not sealed by the other end, or not as the next one");
  return message;
}

}  // namespace capstan
