// SPDX-License-Identifier: Apache-2.0

// Buffers that are used again move into huge pages and keep their contents.

#include "core/platform/memory/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "capstan/settings.hpp"
#include "core/engine/run/recurring_buffers.hpp"
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

/// Collapses all places of some memory; false if one is in no huge page after that.
bool collapse_all(const void* begin, Bytes size) {
  const HugePlaces places{begin, size};
  bool all = true;
  for (std::size_t place = 0; place < places.count(); ++place) all = places.collapse(place) && all;
  return all;
}

TEST(HugePlaces, AreCountedByWhatTheyHold) {
  const auto* page = reinterpret_cast<const std::byte*>(huge_page.value());
  EXPECT_EQ((HugePlaces{page, huge_page * 2}.count()), 2U);
  EXPECT_EQ((HugePlaces{page + 1, huge_page * 2}.count()), 3U);
  EXPECT_EQ((HugePlaces{page + 1, Bytes{5}}.count()), 1U);
  EXPECT_EQ((HugePlaces{page, Bytes{0}}.count()), 0U);
  const HugePlaces places{page + 1, huge_page * 2};
  EXPECT_FALSE(places.is_filled(0));
  EXPECT_TRUE(places.is_filled(1));
  EXPECT_FALSE(places.is_filled(2));
}

/// A program whose calls take long, and a system that moves pages in no time: pages are moved as
/// soon as they are looked at.
class PatientProgram {
 public:
  PatientProgram() {
    for (int i = 0; i < 2; ++i) use(this, Bytes{1 << 30});  // saves up
  }
  void use(const void* begin, Bytes size, int times = 1) {
    for (int i = 0; i < times; ++i) {
      time_ += std::chrono::seconds{1};
      recurring_.use(begin, size);
    }
  }
  RecurringBuffers& recurring() { return recurring_; }

 private:
  RecurringBuffers::Time time_{1};
  RecurringBuffers recurring_{
      {.now = [this] { return time_; }, .move = RecurringBuffers::System::real().move}};
};
constexpr int few = 7;  // uses before a buffer is looked at

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
  EXPECT_TRUE(collapse_all(memory.begin() + page / 2, huge_page)) << "a half in either of two";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 2);
  EXPECT_TRUE(collapse_all(memory.begin() + 2 * page, Bytes{1000})) << "begins with a page";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 3);
  for (std::uint64_t at = 0; at < 3 * page; ++at)
    ASSERT_EQ(memory.begin()[at], at % 4096 == 0 ? std::byte{7} : std::byte{0}) << at;
}

TEST_F(HugePages, HoldNoEndsThatWouldTakeMuchMoreMemory) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 4);
  EXPECT_FALSE(collapse_all(memory.begin() + 100, Bytes{page / 4})) << "three quarters are empty";
  EXPECT_FALSE(collapse_all(memory.begin() + page - 4096, Bytes{8192}));
  EXPECT_TRUE(collapse_all(memory.begin() + 100, Bytes{0}));
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0});
  memory.use(page, 2 * page + 4096);
  EXPECT_TRUE(collapse_all(memory.begin() + 100, Bytes{2 * page})) << "not much for so long a one";
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 3);
}

TEST_F(HugePages, AreNotMadeWhereABufferEndsWithItsMapping) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 2 + page / 4);
  ASSERT_EQ(::mprotect(memory.begin() + page / 2 + page / 4, 4096, PROT_NONE), 0);
  EXPECT_FALSE(collapse_all(memory.begin() + 64, Bytes{page / 2}));
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0});
  EXPECT_EQ(memory.begin()[4096], std::byte{7});
}

TEST_F(HugePages, AreTriedEverMoreRarelyWhereTheyCannotBe) {
  constexpr std::uint64_t page = FourPages::page;
  const FourPages memory;
  memory.use(0, page / 4);
  PatientProgram program;
  program.use(memory.begin() + 64, Bytes{page / 4 - 64}, 40);
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "not even half of it";
  memory.use(0, page);
  program.use(memory.begin() + 64, Bytes{page / 4 - 64}, 25);
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "tried in uses 8 and 72 only";
  program.use(memory.begin() + 64, Bytes{page / 4 - 64}, 10);
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
  PatientProgram program;
  const Bytes before = huge_around(buffer.data());  // what the system gives by itself
  program.use(buffer.data(), size, few);
  program.use(smaller.data(), Bytes{100'000}, few + 1);
  EXPECT_EQ(huge_around(buffer.data()), before) << "these may be the only times";
  program.use(buffer.data(), size);
  EXPECT_GE(huge_around(buffer.data()), huge_page * 3);
  EXPECT_TRUE(buffer.intact());
  EXPECT_TRUE(smaller.intact());
}

/// Like a program that frees a buffer and allocates the next one of the same size.
TEST_F(HugePages, AreForBuffersInThePlaceOfOthers) {
  const FourPages memory;
  const Bytes size = huge_page * 3;
  PatientProgram program;
  for (int buffer = 0; buffer < 3; ++buffer) {
    ASSERT_NE(::mmap(memory.begin(), size.value(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    memory.use(0, size.value());
    program.recurring().look_again();
    program.use(memory.begin(), size, buffer == 0 ? few + 1 : 1);
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
  PatientProgram program;
  renew();
  program.use(memory, Bytes{size}, few + 1);
  for (int buffer = 0; buffer < 3; ++buffer) {
    renew();
    program.use(memory, Bytes{size});
    EXPECT_FALSE(is_huge()) << "it may be the only time";
    program.use(memory, Bytes{size});
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
  PatientProgram program;
  const auto use_all = [&](int times) {
    for (int i = 0; i < 4000 * times; ++i) program.use(memory.begin() + i % 4000, huge_page);
  };
  use_all(few);
  EXPECT_EQ(huge_around(memory.begin()), Bytes{0}) << "these may be the only times";
  use_all(1);
  EXPECT_EQ(huge_around(memory.begin()), huge_page * 2);
}

/// Counts the pages that calls have moved, where each costs `price` and a call without them `call`.
class TimedProgram {
 public:
  using Time = RecurringBuffers::Time;

  TimedProgram(Time call, Time price) : call_(call), price_(price) {}

  /// One call with a long input and a long output. Returns how many pages it has moved.
  int run(Bytes size) {
    const int before = moved_;
    for (const int buffer : {1, 2}) recurring_.use(&memory_[buffer], size);
    time_ += call_;
    return moved_ - before;
  }
  int moved() const { return moved_; }

 private:
  const Time call_, price_;
  const std::byte* const memory_ = reinterpret_cast<const std::byte*>(huge_page.value());
  int moved_ = 0;
  Time time_{1};
  RecurringBuffers recurring_{{.now = [this] { return time_; },
                               .move =
                                   [this](const void*, Bytes, std::size_t) {
                                     ++moved_, time_ += price_;
                                     return true;
                                   }}};
};

/// No call is a cliff, a program of a few calls pays nothing, and all pages are moved in the end.
TEST(RecurringBuffers, MovesFewPagesPerCall) {
  using std::chrono::microseconds;
  struct Case {
    Bytes size;
    microseconds call, price;
  };
  for (const auto& [size, call, price] :
       {Case{Bytes{64 << 20}, microseconds{12'000}, microseconds{600}},
        Case{Bytes{64 << 20}, microseconds{12'000}, microseconds{5000}},
        Case{Bytes{1 << 20}, microseconds{60}, microseconds{600}},
        Case{Bytes{1 << 30}, microseconds{200'000}, microseconds{600}}}) {
    SCOPED_TRACE(size.value());
    TimedProgram program{call, price};
    const int all = 2 * static_cast<int>(size.value() / huge_page.value() + 1);
    const RecurringBuffers::Time tenth{size.value() / 4 / 10};  // of a call at 4 GB/s
    const auto most_in_a_call = std::max<std::int64_t>(1, tenth / price + 1);
    constexpr int most_calls = 20'000;
    int calls = 0;
    for (; program.moved() < all && calls < most_calls; ++calls) {
      const int moved = program.run(size);
      ASSERT_LE(moved, most_in_a_call) << "call " << calls;
      ASSERT_LE(program.moved() * price, calls * call / 10 + price) << "call " << calls;
      if (calls < few) {
        ASSERT_EQ(moved, 0) << "call " << calls;
      }
    }
    EXPECT_EQ(program.moved(), all);
    EXPECT_LE(calls, 20 * all * price / call + 100);
  }
}

TEST(RecurringBuffers, SavesNothingUpWhileAProgramComputes) {
  using std::chrono::seconds, std::chrono::microseconds;
  TimedProgram program{seconds{10}, microseconds{600}};
  for (int call = 0; call < 20; ++call)
    EXPECT_LE(program.run(Bytes{4 << 20}), 3) << "as if the call had taken a millisecond";
}

TEST_F(HugePages, AreUsedForCallsIfWanted) {
  for (const bool wanted : {true, false}) {
    Settings settings = bounded_settings();
    settings.huge_pages = wanted;
    on_threads(2, settings, [&](Communicator& world) {
      std::vector<float> data((std::size_t{5} << 20) / sizeof(float), 1.0F);
      constexpr int enough = 4000, together = 8;
      std::int64_t moved = 0;  // on how many ranks
      for (int i = 0; i < (wanted ? enough : together) && moved < 2; i += together) {
        for (int call = 0; call < together; ++call) world.broadcast(std::span{data}, 0);
        moved = huge_around(data.data()) >= huge_page;
        world.all_reduce(std::span{&moved, 1});
      }
      EXPECT_EQ(std::ranges::count(data, 1.0F), std::ssize(data));
      if (wanted) {
        EXPECT_EQ(moved, 2);
      }
    });
  }
}

}  // namespace
}  // namespace capstan
