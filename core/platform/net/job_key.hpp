// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/platform/net/random.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {

/// The key of one world, which its ranks alone know: derived from the job's secret and a nonce that
/// rank 0 draws for this world, so that records of another world with the same secret are of no
/// use. All keys between its ranks are derived from it; neither it nor they ever cross a wire.
class JobKey {
 public:
  /// Distinguishes transports of one rank. No secret: it is part of the address.
  using TransportId = std::array<std::byte, 16>;

  /// A rank's end of something that two ranks share.
  struct End {
    std::int32_t rank = 0;
    TransportId id{};
  };

  /// A key that nobody else has.
  static JobKey random() { return JobKey{Secret::random()}; }
  JobKey(const Secret& secret, const Nonce& nonce);

  /// The key for one purpose between two ends, whose order matters.
  Secret between(std::string_view purpose, const End& first, const End& second) const;
  /// A number that tells worlds apart, and nothing about the key.
  std::uint64_t mark() const;

 private:
  explicit JobKey(const Secret& key) : key_(key) {}
  Secret key_;
};

}  // namespace capstan
