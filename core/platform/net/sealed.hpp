// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sodium.h>

#include <cstddef>
#include <span>
#include <vector>

#include "core/platform/net/secret.hpp"

/// One direction of a conversation, sealed (libsodium's crypto_secretstream, XChaCha20 and
/// Poly1305): nobody without the key can read or change a message, repeat one, leave one out or
/// exchange two. What comes first holds the stream's header as well.
namespace capstan {

/// The bytes by which a sealed message may be longer.
inline constexpr std::size_t seal_overhead = crypto_secretstream_xchacha20poly1305_HEADERBYTES +
                                             crypto_secretstream_xchacha20poly1305_ABYTES;

class Sealer {
 public:
  /// A key seals one direction of one conversation.
  explicit Sealer(const Secret& key);
  ~Sealer();
  Sealer(Sealer&&) = default;
  Sealer& operator=(Sealer&&) = default;

  std::vector<std::byte> seal(std::span<const std::byte> message);

 private:
  crypto_secretstream_xchacha20poly1305_state state_;
  std::vector<std::byte> header_;  // until it has been sent
};

class Unsealer {
 public:
  explicit Unsealer(const Secret& key) : key_(key) {}
  ~Unsealer();
  Unsealer(Unsealer&&) = default;
  Unsealer& operator=(Unsealer&&) = default;

  /// Throws MalformedMessage unless `sealed` is the next one of the other end.
  std::vector<std::byte> open(std::span<const std::byte> sealed);

 private:
  Secret key_;
  crypto_secretstream_xchacha20poly1305_state state_{};
  bool started_ = false;
};

/// Both directions of a conversation, seen from one end.
struct SealedPair {
  Sealer out;
  Unsealer in;
};

}  // namespace capstan
