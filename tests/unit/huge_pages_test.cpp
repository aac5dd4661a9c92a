// Buffers that come back move into huge pages, and stay what they are.

#include "core/memory/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "core/settings.hpp"
#include "tests/unit/thread_world.hpp"

namespace capstan {
namespace {

/// How much of the mapping around an address is in huge pages.
Bytes huge_around(const void* address) {
  const auto wanted = reinterpret_cast<std::uint64_t>(address);
  std::ifstream smaps{"/proc/self/smaps"};
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0, kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      here = begin <= wanted && wanted < end;
    else if (here && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kilobytes) == 1)
      return Bytes{kilobytes << 10};
  }
  return Bytes{0};
}

class HugePages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_collapse_pages()) GTEST_SKIP() << "needs Linux 6.1 and memory for huge pages";
  }

  /// Numbers in memory of its own, which begins in the middle of a page.
  struct Buffer {
    explicit Buffer(Bytes bytes) : memory(bytes.value() / sizeof(int) + 1) {
      std::iota(memory.begin(), memory.end(), 1);
    }
    const void* data() const { return memory.data() + 1; }
    bool intact() const {
      for (std::size_t i = 0; i < memory.size(); ++i)
        if (memory[i] != static_cast<int>(i) + 1) return false;
      return true;
    }
    std::vector<int> memory;
  };
};

TEST_F(HugePages, HoldWhatSmallOnesHeld) {
  const Bytes size{9 << 20};
  const Buffer buffer{size};
  EXPECT_TRUE(collapse_pages(buffer.data(), size));
  EXPECT_GE(huge_around(buffer.data()), huge_page * 3) << "9 MiB contain three whole ones at least";
  EXPECT_TRUE(buffer.intact());
  EXPECT_TRUE(collapse_pages(buffer.data(), size)) << "again";
  EXPECT_TRUE(collapse_pages(buffer.data(), Bytes{100})) << "there is none in it";
}

TEST_F(HugePages, HoldTheEndsOfABufferWithWhatIsBesideIt) {
  const Bytes all{8 << 20};
  const Buffer around{all};
  const auto begin = reinterpret_cast<std::uint64_t>(around.data());
  const std::uint64_t page = huge_page.value(), first = (begin + page - 1) / page * page;
  const auto* const middle = reinterpret_cast<const std::byte*>(first + page / 2);
  EXPECT_TRUE(collapse_pages(middle, huge_page)) << "a half in either of two pages";
  EXPECT_GE(huge_around(middle), huge_page * 2);
  EXPECT_TRUE(around.intact());
}

TEST_F(HugePages, AreNotMadeWhereABufferEndsWithItsMapping) {
  const std::size_t size = huge_page.value() / 2;
  void* const memory =
      ::mmap(nullptr, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto page = huge_page.value(), at = reinterpret_cast<std::uint64_t>(memory);
  auto* const aligned = reinterpret_cast<char*>((at + page - 1) / page * page);
  ASSERT_EQ(::munmap(aligned + size, size), 0) << "the second half of a page is not there";
  aligned[0] = 7;
  EXPECT_TRUE(collapse_pages(aligned, Bytes{size})) << "there is none in it";
  EXPECT_EQ(aligned[0], 7);
  ::munmap(memory, 4 * size);
}

TEST_F(HugePages, AreNotForMemoryWhoseOwnerWantsSmallOnes) {
  const std::size_t size = 8 << 20;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::madvise(memory, size, MADV_NOHUGEPAGE), 0);
  static_cast<char*>(memory)[size - 1] = 1;
  EXPECT_FALSE(collapse_pages(memory, Bytes{size}));
  EXPECT_EQ(huge_around(memory), Bytes{0});
  ::munmap(memory, size);
}

TEST_F(HugePages, AreForBuffersThatComeBack) {
  const Bytes size{9 << 20};
  const Buffer buffer{size}, smaller{Bytes{100'000}};
  RecurringBuffers recurring;
  const Bytes before = huge_around(buffer.data());  // what the system gives by itself
  recurring.use(buffer.data(), size);
  recurring.use(smaller.data(), Bytes{100'000});
  EXPECT_EQ(huge_around(buffer.data()), before) << "it may be the only time";
  recurring.use(smaller.data(), Bytes{100'000});
  recurring.use(buffer.data(), size);
  EXPECT_GE(huge_around(buffer.data()), huge_page * 3);
  EXPECT_TRUE(buffer.intact());
  EXPECT_TRUE(smaller.intact());
}

TEST_F(HugePages, ForgetBuffersThatDoNotComeBack) {
  const Bytes size{4 << 20};
  const Buffer buffer{Bytes{12 << 20}};
  RecurringBuffers recurring;
  for (int i = 0; i < 5000; ++i) {
    recurring.use(static_cast<const std::byte*>(buffer.data()) + i, size);
    ASSERT_LE(recurring.known(), 1024U);
  }
}

TEST_F(HugePages, AreUsedForCallsIfWanted) {
  for (const bool wanted : {true, false}) {
    Settings settings = bounded_settings();
    settings.huge_pages = wanted;
    on_threads(2, settings, [&](Communicator& world) {
      std::vector<float> data((std::size_t{9} << 20) / sizeof(float), 1.0F);
      for (int i = 0; i < 3; ++i) world.all_reduce(data);
      EXPECT_EQ(data.front(), 8.0F);
      EXPECT_EQ(data.back(), 8.0F);
      if (wanted) {
        EXPECT_GE(huge_around(data.data()), huge_page * 3);
      }
    });
  }
}

}  // namespace
}  // namespace capstan
