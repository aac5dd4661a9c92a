// SPDX-License-Identifier: Apache-2.0

// Mapped memory: its alignment, its guard page, and what forked children have of it.

#include "transports/common/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace capstan {
namespace {

constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

/// The first byte that a forked child reads there.
int byte_in_child(const std::byte* memory) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(std::to_integer<int>(*memory));
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Mapping, FromAHugePageOnItIsAlignedToOne) {
  for (const std::uint64_t size : {huge_page, huge_page + 4096, 2 * huge_page, 5 * huge_page})
    for (int i = 0; i < 4; ++i) {  // once it may be so by chance
      const Mapping small = Mapping::anonymous(Bytes{4096}),
                    mapping = Mapping::anonymous(Bytes{size});
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % huge_page, 0U) << size;
    }
}

TEST(Mapping, ChildrenHaveZerosOrTheSameMemory) {
  using enum Mapping::InChildren;
  for (const auto in_children : {zeros, the_memory}) {
    const Mapping mapping = Mapping::anonymous(Bytes{10'000}, in_children);
    *mapping.data() = std::byte{42};
    EXPECT_EQ(byte_in_child(mapping.data()), in_children == zeros ? 0 : 42);
  }
}

TEST(MappingDeathTest, AnAccessBeyondItsEndFaults) {
  const Mapping mapping = Mapping::anonymous(Bytes{4096});
  std::memset(mapping.data(), 1, 4096);
  volatile std::byte* const beyond = mapping.data() + 4096;
  EXPECT_DEATH(*beyond = std::byte{1}, "");
}

TEST(Mapping, SizesAreWholePagesWithinTheAddressSpace) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(whole_pages(Bytes{1}), Bytes{page});
  EXPECT_EQ(whole_pages(Bytes{page}), Bytes{page});
  EXPECT_FALSE(is_segment_size(Bytes{0}));
  EXPECT_TRUE(is_segment_size(Bytes{std::uint64_t{1} << 46}));
  EXPECT_FALSE(is_segment_size(Bytes{(std::uint64_t{1} << 46) + 1}));
}

}  // namespace
}  // namespace capstan
