// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "tests/unit/kernels_reference.hpp"

namespace capstan::kernels {
namespace {

constexpr std::size_t page = 4096;

class KernelsCopy : public testing::TestWithParam<std::string_view> {};

/// Bytes from the start of a page on, with a page before and after those that are copied.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : memory_(bytes + 4 * page, 0xA5) {
    void* begin = memory_.data();
    std::size_t space = memory_.size();
    bytes_ = {static_cast<std::uint8_t*>(std::align(page, bytes + 2 * page, begin, space)),
              bytes + 2 * page};
  }
  std::uint8_t* begin() const { return bytes_.data() + page; }
  std::span<std::uint8_t> all() const { return bytes_; }

 private:
  std::vector<std::uint8_t> memory_;
  std::span<std::uint8_t> bytes_;
};

/// `to` and `from`: where in a page the copy and its source begin.
bool copies_exactly(CopyKernel kernel, std::size_t bytes, std::size_t to, std::size_t from,
                    bool stream) {
  const Pages source{from + bytes}, destination{to + bytes}, expected{to + bytes};
  std::iota(source.begin(), source.begin() + from + bytes, std::uint8_t{1});
  std::copy_n(source.begin() + from, bytes, expected.begin() + to);
  kernel(destination.begin() + to, source.begin() + from, bytes, stream);
  return std::ranges::equal(destination.all(), expected.all());
}

TEST_P(KernelsCopy, CopiesExactlyTheBytesAsked) {
  const CopyKernel kernel = copy_kernel_for(GetParam());
  for (const std::size_t bytes : {0, 1, 7, 8, 63, 64, 65, 1023, 1024, 1025, 1100, 4096, 70001,
                                  131072, 131073, 262144, 300001}) {
    for (const std::size_t to : {0, 1, 8, 16, 63}) {
      for (const std::size_t from : {0, 1, 8, 63}) {
        EXPECT_TRUE(copies_exactly(kernel, bytes, to, from, false)) << bytes << ' ' << to << from;
        EXPECT_TRUE(copies_exactly(kernel, bytes, to, from, true)) << bytes << ' ' << to << from;
      }
    }
  }
}

TEST_P(KernelsCopy, StreamedBytesAreVisibleAfterAReleaseStore) {
  constexpr std::uint32_t rounds = 200;
  const CopyKernel kernel = copy_kernel_for(GetParam());
  std::vector<std::uint32_t> source(4096), destination(source.size());
  std::atomic<std::uint32_t> written{0}, read{0};
  bool all_seen = true;
  std::jthread reader([&] {
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      while (written.load(std::memory_order_acquire) != round) std::this_thread::yield();
      for (const std::uint32_t value : destination) all_seen = all_seen && value == round;
      read.store(round, std::memory_order_release);
    }
  });
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    std::fill(source.begin(), source.end(), round);
    kernel(destination.data(), source.data(), source.size() * sizeof source[0], true);
    written.store(round, std::memory_order_release);
    while (read.load(std::memory_order_acquire) != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_TRUE(all_seen);
}

std::string target_name(const testing::TestParamInfo<std::string_view>& parameter) {
  return test_name_of(parameter.param);
}

const auto targets = testing::ValuesIn(available_targets().begin(), available_targets().end());
INSTANTIATE_TEST_SUITE_P(All, KernelsCopy, targets, target_name);

TEST(KernelsCopyDispatch, UsesTheActiveTarget) {
  std::vector<std::uint8_t> source(5000, 7), destination(5000);
  copy(destination.data(), source.data(), source.size(), true);
  EXPECT_EQ(destination, source);
}

}  // namespace
}  // namespace capstan::kernels
