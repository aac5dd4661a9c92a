// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// A fuzz target defines the two functions below. libFuzzer runs it (clang-19).

/// Feeds one input to what is tested. Whatever is wrong ends the process.
/// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name for it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace capstan::fuzz {

/// Inputs to start from, such as valid ones.
std::vector<std::string> seeds();

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Takes numbers off the front of an input.
class Source {
 public:
  Source(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  /// 0 at the end.
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  std::span<const std::byte> bytes(std::size_t most) {
    const auto taken = rest_.first(most < rest_.size() ? most : rest_.size());
    rest_ = rest_.subspan(taken.size());
    return std::as_bytes(taken);
  }
  std::span<const std::byte> rest() { return bytes(rest_.size()); }
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> rest_;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace capstan::fuzz
