// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "capstan/error.hpp"
#include "core/platform/device/gpu_page_locker.hpp"
#include "core/platform/memory/pinned_memory.hpp"
#include "tests/unit/fake_libraries.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Handle = PinnedMemory::Handle;

const std::uint64_t page = page_size();

/// The real mlock(2), which the sanitizers replace by nothing at all.
struct MemoryLockerTest : ::testing::Test {
  void SetUp() override {
    const std::vector<std::byte> memory(page);
    const Bytes before = locked_memory().used;
    ::mlock(memory.data(), page);
    if (locked_memory().used == before) GTEST_SKIP() << "mlock locks nothing here";
    ::munlock(memory.data(), page);
  }
};

TEST_F(MemoryLockerTest, LocksPages) {
  const Bytes before = locked_memory().used;
  {
    PinnedMemory pinned{make_memory_locker(), Bytes{64 * page}};
    EXPECT_EQ(pinned.locker(), "mlock");
    std::vector<std::byte> buffer(4 * page);
    try {
      const Handle block = pinned.allocate(Bytes{4 * page}), own = pinned.pin(buffer);
      EXPECT_EQ(locked_memory().used - before, pinned.total_pinned());
    } catch (const LimitReached& error) {
      GTEST_SKIP() << error.what();
    }
  }
  EXPECT_EQ(locked_memory().used, before) << "an unused block goes with its manager";
}

TEST_F(MemoryLockerTest, UnmappedMemoryIsNotALimit) {
  void* memory = ::mmap(nullptr, 4 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(memory, 4 * page);
  PinnedMemory pinned{make_memory_locker(), Bytes{64 * page}};
  try {
    pinned.pin(memory, Bytes{page});
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not mapped"));
  }
  EXPECT_EQ(pinned.total_pinned(), Bytes{});
}

/// Runs in a child process that has no right to exceed the limit.
TEST_F(MemoryLockerTest, NamesTheLimitOfTheProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{8 * page, 8 * page};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    try {
      PinnedMemory pinned{make_memory_locker(), Bytes{64 * page}};
      const Handle fits = pinned.allocate(Bytes{6 * page});
      const Handle more = pinned.allocate(Bytes{4 * page});
    } catch (const LimitReached& error) {
      const std::string_view what = error.what();
      ::_exit(::write(ends[1], what.data(), what.size()) > 0 ? 0 : 2);
    }
    ::_exit(3);
  }
  ::close(ends[1]);
  char text[1024] = {};
  EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
  ::close(ends[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(text, HasSubstr("mlock of 16 KiB failed"));
  EXPECT_THAT(text, HasSubstr("has locked 24 KiB of the 32 KiB that RLIMIT_MEMLOCK allows"));
  EXPECT_THAT(text, HasSubstr("ulimit -l unlimited"));
}

/// A libcuda that allocates with malloc and counts contexts.
struct FakeCuda {
  inline static int contexts = 0, pushed = 0, blocks = 0, registered = 0;
  inline static bool out_of_memory = false, has_device = true;

  static int push(void*) { return ++pushed, 0; }
  static int pop(void**) { return --pushed, 0; }
  static int allocate(void** block, std::size_t size, unsigned flags) {
    EXPECT_EQ(pushed, 1) << "no context is current";
    EXPECT_EQ(flags, 1U);
    if (out_of_memory) return 2;
    return ++blocks, *block = std::aligned_alloc(page, size), 0;
  }
  static int release(void* block) { return --blocks, std::free(block), 0; }
  static int add(void*, std::size_t, unsigned) { return ++registered, 0; }
  static int remove(void*) { return --registered, 0; }
  static int text(int, const char** message) { return *message = "out of memory", 0; }

  static FakeLibraries::Symbols symbols() {
    FakeLibraries::Symbols all;
    all.add("cuInit", +[](unsigned) { return 0; });
    all.add("cuDeviceGet", +[](int* device, int) { return *device = 0, has_device ? 0 : 101; });
    all.add(
        "cuDevicePrimaryCtxRetain",
        +[](void** context, int) { return ++contexts, *context = &contexts, 0; });
    all.add("cuDevicePrimaryCtxRelease_v2", +[](int) { return --contexts, 0; });
    all.add("cuCtxPushCurrent_v2", &push);
    all.add("cuCtxPopCurrent_v2", &pop);
    all.add("cuMemHostAlloc", &allocate);
    all.add("cuMemFreeHost", &release);
    all.add("cuMemHostRegister_v2", &add);
    all.add("cuMemHostUnregister", &remove);
    all.add("cuGetErrorString", &text);
    return all;
  }
};

TEST(GpuPageLocker, CudaLocksInItsContext) {
  const FakeLibraries libraries{{"libcuda.so.1", FakeCuda::symbols()}};
  std::vector<std::byte> buffer(page);
  {
    PinnedMemory pinned{make_page_locker(libraries), Bytes{64 * page}};
    EXPECT_EQ(pinned.locker(), "CUDA");
    const Handle block = pinned.allocate(Bytes{page}), own = pinned.pin(buffer);
    block.data()[0] = std::byte{1};
    EXPECT_EQ(FakeCuda::blocks, 1);
    EXPECT_EQ(FakeCuda::registered, 1);
    FakeCuda::out_of_memory = true;
    EXPECT_THROW(pinned.allocate(Bytes{3 * page}), LimitReached);
    FakeCuda::out_of_memory = false;
  }
  EXPECT_EQ(FakeCuda::blocks, 0);
  EXPECT_EQ(FakeCuda::registered, 0);
  EXPECT_EQ(FakeCuda::contexts, 0);
  EXPECT_EQ(FakeCuda::pushed, 0);
}

TEST(GpuPageLocker, WithoutAGpuTheDriverAloneIsNotEnough) {
  FakeCuda::has_device = false;
  EXPECT_EQ(make_page_locker(FakeLibraries{{"libcuda.so.1", FakeCuda::symbols()}})->name(),
            "mlock");
  FakeCuda::has_device = true;
  FakeLibraries::Symbols old = FakeCuda::symbols();
  old.remove("cuMemHostRegister_v2");
  EXPECT_EQ(make_page_locker(FakeLibraries{{"libcuda.so.1", old}})->name(), "mlock");
}

TEST(GpuPageLocker, HipLocks) {
  static int blocks = 0, registered = 0, devices = 1;
  FakeLibraries::Symbols hip;
  hip.add("hipGetDeviceCount", +[](int* count) { return *count = devices, 0; });
  hip.add(
      "hipHostMalloc", +[](void** block, std::size_t size, unsigned) {
        return ++blocks, *block = std::aligned_alloc(page, size), 0;
      });
  hip.add("hipHostFree", +[](void* block) { return --blocks, std::free(block), 0; });
  hip.add(
      "hipHostRegister",
      +[](void*, std::size_t, unsigned) { return registered > 0 ? 1 : (++registered, 0); });
  hip.add("hipHostUnregister", +[](void*) { return --registered, 0; });
  hip.add("hipGetErrorString", +[](int) { return "invalid argument"; });
  const FakeLibraries libraries{{"libamdhip64.so", hip}};
  std::vector<std::byte> buffer(page), other(page);
  {
    PinnedMemory pinned{make_page_locker(libraries), Bytes{64 * page}};
    EXPECT_EQ(pinned.locker(), "HIP");
    const Handle block = pinned.allocate(Bytes{page}), own = pinned.pin(buffer);
    EXPECT_EQ(blocks + registered, 2);
    try {
      const Handle refused = pinned.pin(own.data() + 8 * page, Bytes{page});
      FAIL();
    } catch (const SystemError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("hipHostRegister of "),
                                      HasSubstr("failed: invalid argument (1)")));
    }
  }
  EXPECT_EQ(blocks + registered, 0);
  devices = 0;
  EXPECT_EQ(make_hip_locker(libraries), nullptr);
}

}  // namespace
}  // namespace capstan
