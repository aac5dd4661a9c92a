// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace capstan {

/// The bytes of one key, in memory that core dumps leave out. A copy has memory of its own. Wiped
/// when destroyed.
class KeyMemory {
 public:
  using Bytes = std::array<std::byte, 32>;

  explicit KeyMemory(const Bytes& bytes);
  KeyMemory(const KeyMemory& other) : KeyMemory(*other.bytes_) {}
  KeyMemory& operator=(const KeyMemory& other) {
    *bytes_ = *other.bytes_;
    return *this;
  }

  const Bytes& bytes() const { return *bytes_; }

 private:
  struct GiveBack {
    void operator()(Bytes* bytes) const;
  };
  std::unique_ptr<Bytes, GiveBack> bytes_;
};

}  // namespace capstan
