// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/platform/net/secret.hpp"

namespace capstan {

/// Seals what one end of a connection sends, record by record (ChaCha20 and Poly1305). Records are
/// numbered, so none can be changed, repeated, left out or exchanged for another. For data in bulk:
/// works in place and allocates nothing.
class RecordSeal {
 public:
  enum class Mode : std::uint8_t {
    authenticated,  ///< readable for everybody
    encrypted
  };
  static constexpr std::size_t tag_bytes = 16;

  /// A key serves one direction of one connection. Both ends number the records from 0.
  RecordSeal(const Secret& key, Mode mode) : key_(key), mode_(mode) {}

  /// Seals the next record, and writes its tag.
  void seal(std::span<std::byte> record, std::span<std::byte, tag_bytes> tag);
  /// Opens what must be the next record. False, and its bytes mean nothing, if it is not.
  [[nodiscard]] bool open(std::span<std::byte> record, std::span<const std::byte, tag_bytes> tag);

 private:
  Secret key_;
  Mode mode_;
  std::uint64_t number_ = 0;
};

}  // namespace capstan
