// Buffers that are used again move into huge pages and keep their contents.

#include "core/memory/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "capstan/settings.hpp"
#include "core/engine/recurring_buffers.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

/// The part of the mapping around an address that is in huge pages, in bytes.
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

/// Memory that begins at a page of 2 MiB and holds four.
class FourPages {
 public:
  FourPages()
      : memory_(::mmap(nullptr, 5 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0)) {}
  ~FourPages() { ::munmap(memory_, 5 * page); }
  FourPages(const FourPages&) = delete;

  std::byte* begin() const {
    const auto address = reinterpret_cast<std::uint64_t>(memory_);
    return reinterpret_cast<std::byte*>((address + page - 1) / page * page);
  }
  /// Uses each small page in a range.
  void use(std::uint64_t from, std::uint64_t to) const {
    for (std::uint64_t at = from; at < to; at += 4096) begin()[at] = std::byte{7};
  }

  static constexpr std::uint64_t page = huge_page.value();

 private:
  void* const memory_;
};

TEST_F(HugePages, HoldTheEndsOfABufferWithWhatIsBesideIt) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, 3 * page);
  EXPECT_TRUE(collapse_ends(memory.begin() + page / 2, huge_page)) << "a half in either of two";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 2);
  EXPECT_TRUE(collapse_ends(memory.begin() + 2 * page, Bytes{1000})) << "begins with a page";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 3);
  for (std::uint64_t at = 0; at < 3 * page; ++at)
    ASSERT_EQ(memory.begin()[at], at % 4096 == 0 ? std::byte{7} : std::byte{0}) << at;
}

TEST_F(HugePages, HoldNoEndsThatWouldTakeMuchMoreMemory) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 4);
  EXPECT_FALSE(collapse_ends(memory.begin() + 100, Bytes{page / 4})) << "three quarters are empty";
  EXPECT_FALSE(collapse_ends(memory.begin() + page - 4096, Bytes{8192}));
  EXPECT_TRUE(collapse_ends(memory.begin() + 100, Bytes{0}));
  EXPECT_TRUE(collapse_ends(memory.begin() + page, huge_page)) << "has no ends";
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0});
  memory.use(page, 2 * page + 4096);
  EXPECT_TRUE(collapse_ends(memory.begin() + 100, Bytes{2 * page})) << "not much for so long a one";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 2);
}

TEST_F(HugePages, AreNotMadeWhereABufferEndsWithItsMapping) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 2 + page / 4);
  ASSERT_EQ(::mprotect(memory.begin() + page / 2 + page / 4, 4096, PROT_NONE), 0);
  EXPECT_FALSE(collapse_ends(memory.begin() + 64, Bytes{page / 2}));
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0});
  EXPECT_EQ(memory.begin()[4096], std::byte{7});
}

TEST_F(HugePages, AreTriedEverMoreRarelyWhereTheyCannotBe) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 4);
  RecurringBuffers recurring;
  for (int i = 0; i < 40; ++i) recurring.use(memory.begin() + 64, Bytes{page / 4 - 64});
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "not even half of it";
  memory.use(0, page);
  for (int i = 0; i < 20; ++i) recurring.use(memory.begin() + 64, Bytes{page / 4 - 64});
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "tried in uses 2 and 66 only";
  for (int i = 0; i < 10; ++i) recurring.use(memory.begin() + 64, Bytes{page / 4 - 64});
  EXPECT_EQ(huge_around(memory.begin()), huge_page);
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

/// Like a program that frees a buffer and allocates the next one of the same size.
TEST_F(HugePages, AreForBuffersInThePlaceOfOthers) {
  const FourPages memory;
  const Bytes size = huge_page * 3;
  RecurringBuffers recurring;
  for (int buffer = 0; buffer < 3; ++buffer) {
    ASSERT_NE(::mmap(memory.begin(), size.value(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    memory.use(0, size.value());
    recurring.look_again();
    recurring.use(memory.begin(), size);
    if (buffer == 0) recurring.use(memory.begin(), size);
    EXPECT_EQ(huge_around(memory.begin()), size) << "buffer " << buffer;
  }
}

TEST_F(HugePages, AreForLongBuffersInThePlaceOfOthersWhenTheyComeBack) {
  const std::size_t size = 32 << 20;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto renew = [&] {
    ASSERT_EQ(::mmap(memory, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0),
              memory);
    ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);  // by themselves pages are small
    for (std::size_t at = 0; at < size; at += 4096) static_cast<std::byte*>(memory)[at] = {};
    ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
  };
  const auto is_huge = [&] { return huge_around(memory).value() > size / 2; };
  RecurringBuffers recurring;
  renew();
  for (int use = 0; use < 2; ++use) recurring.use(memory, Bytes{size});
  for (int buffer = 0; buffer < 3; ++buffer) {
    renew();
    recurring.use(memory, Bytes{size});
    EXPECT_FALSE(is_huge()) << "it may be the only time";
    recurring.use(memory, Bytes{size});
    EXPECT_TRUE(is_huge()) << "buffer " << buffer;
  }
  ::munmap(memory, size);
}

TEST_F(HugePages, ForgetBuffersThatDoNotComeBack) {
  const Bytes size{4 << 20};
  const Buffer buffer{Bytes{12 << 20}};
  RecurringBuffers recurring;
  for (int i = 0; i < 20'000; ++i) {
    recurring.use(static_cast<const std::byte*>(buffer.data()) + i, size);
    ASSERT_LE(recurring.known(), 8192U);
  }
}

/// Like a program that uses many buffers one after another, again and again.
TEST_F(HugePages, AreForManyBuffers) {
  const FourPages memory;
  memory.use(0, 2 * FourPages::page);
  RecurringBuffers recurring;
  const auto use_all = [&] {
    for (int i = 0; i < 6000; ++i) recurring.use(memory.begin() + i, huge_page);
  };
  use_all();
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "it may be the only time";
  use_all();
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 2);
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
