// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/platform/net/key_memory.hpp"

namespace capstan {

/// A number that is used once, so that no proof fits a second connection.
using Nonce = std::array<std::byte, 32>;
/// A keyed hash (HMAC-SHA-512-256).
using Digest = std::array<std::byte, 32>;
/// A keyed hash of a short message (SipHash, 128 bits).
using Tag = std::array<std::byte, 16>;

/// A key that two processes share. It never crosses the wire: both ends prove that they know it by
/// keyed hashes of nonces that each of them drew. It lies in memory that core dumps leave out.
class Secret {
 public:
  using Bytes = KeyMemory::Bytes;

  /// 256 random bits.
  static Secret random();
  /// A secret that is as hard to guess as `text`. The same text gives the same secret everywhere.
  static Secret from_text(std::string_view text);
  static Secret from_bytes(const Bytes& bytes) { return Secret{bytes}; }
  /// A secret that is as hard to guess as `material`. Another `purpose` gives another secret.
  static Secret derive(std::span<const std::byte> material, std::string_view purpose);

  const Bytes& bytes() const { return key_.bytes(); }
  /// The keyed hash of `message`.
  Digest proof(std::span<const std::byte> message) const;
  /// The same, much faster for messages that are short and many.
  Tag tag(std::span<const std::byte> message) const;
  /// A secret derived from this one. Every other purpose or context gives another secret, and none
  /// of them tells anything about this one or each other.
  Secret child(std::string_view purpose, std::span<const std::byte> context) const;

 private:
  /// The secret of these bytes, which are wiped.
  static Secret wiped(Bytes&& bytes);
  explicit Secret(const Bytes& bytes) : key_(bytes) {}
  KeyMemory key_;
};

/// Compares in constant time.
bool same_proof(const Digest& a, const Digest& b);
bool same_tag(const Tag& a, const Tag& b);

/// 32 random bytes as 64 hexadecimal digits, for a secret that has to travel as text.
std::string random_text();

/// The first 128 bits of a hash of `text`, as 32 hexadecimal digits: a short stand-in for long
/// identities.
std::string fingerprint(std::string_view text);

/// The first 64 bits of a hash of `text`.
std::uint64_t fingerprint_number(std::string_view text);

}  // namespace capstan
