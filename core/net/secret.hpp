#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace capstan {

/// The key that all ranks of a job share. It never crosses the wire: both ends prove that they
/// know it by a keyed hash (HMAC-SHA-512-256) over numbers that each of them chose afresh.
/// Wiped when destroyed.
class Secret {
 public:
  using Bytes = std::array<std::byte, 32>;

  /// 256 bits from the operating system's random source.
  static Secret random();
  /// As hard to guess as `text` is. The same text gives the same secret everywhere.
  static Secret from_text(std::string_view text);
  static Secret from_bytes(const Bytes& bytes) { return Secret{bytes}; }

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  const Bytes& bytes() const { return bytes_; }
  /// The keyed hash of `message`.
  Bytes proof(std::span<const std::byte> message) const;

 private:
  explicit Secret(const Bytes& bytes) : bytes_(bytes) {}
  Bytes bytes_;
};

/// Compares in constant time.
bool same_proof(const Secret::Bytes& a, const Secret::Bytes& b);

/// 32 fresh random bytes.
Secret::Bytes random_bytes();

/// 32 fresh random bytes as 64 hexadecimal digits, for a secret that has to travel as text.
std::string random_text();

/// The first 128 bits of a hash of `text`, as 32 hexadecimal digits: a short stand-in for long
/// identities.
std::string fingerprint(std::string_view text);

}  // namespace capstan
