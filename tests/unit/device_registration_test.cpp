// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_registration.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "core/platform/memory/registration/address_range.hpp"

struct ibv_pd {};
struct ibv_mr {
  std::uint64_t offset, length, iova;
  int fd;
};

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

struct Calls {
  inline static int dma_bufs, peers, deregistered, exported_fd;
  inline static bool export_works, dma_buf_works, peer_works;
  inline static std::uint64_t exported_begin, exported_size;
  inline static ibv_mr region;

  static ibv_mr* reg_mr(ibv_pd*, void* address, std::size_t length, int) {
    ++peers;
    if (!peer_works) return errno = EFAULT, nullptr;
    region = {0, length, reinterpret_cast<std::uintptr_t>(address), -1};
    return &region;
  }
  static ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t offset, std::size_t length,
                               std::uint64_t iova, int fd, int) {
    ++dma_bufs;
    EXPECT_TRUE(is_open(fd));
    if (!dma_buf_works) return errno = EOPNOTSUPP, nullptr;
    region = {offset, length, iova, fd};
    return &region;
  }
  static int dereg_mr(ibv_mr*) { return ++deregistered, 0; }
  static int export_pages(const void* begin, std::size_t size, int& descriptor) {
    exported_begin = reinterpret_cast<std::uintptr_t>(begin);
    exported_size = size;
    if (!export_works) return 801;  // CUDA_ERROR_NOT_SUPPORTED
    exported_fd = ::dup(STDERR_FILENO);
    return descriptor = exported_fd, 0;
  }
};

struct DeviceRegistrationTest : ::testing::Test {
  DeviceRegistrationTest() {
    Calls::dma_bufs = Calls::peers = Calls::deregistered = 0;
    Calls::export_works = Calls::dma_buf_works = Calls::peer_works = true;
    functions.reg_mr = &Calls::reg_mr;
    functions.reg_dmabuf_mr = &Calls::reg_dmabuf_mr;
    functions.dereg_mr = &Calls::dereg_mr;
    functions.export_pages = &Calls::export_pages;
  }
  DeviceRegistration make() { return register_device_memory(functions, &domain, memory, 0); }

  GpuDirectFunctions functions;
  ibv_pd domain;
  DeviceMemory memory{0x7f00'0000'1100, 10'000};
};

using Path = DeviceRegistration::Path;

TEST_F(DeviceRegistrationTest, DmaBufsComeFirst) {
  {
    const auto registration = make();
    EXPECT_EQ(registration.path(), Path::dma_buf);
    EXPECT_EQ(registration.reason(), "");
    ASSERT_EQ(registration.region(), &Calls::region);
    EXPECT_EQ(Calls::region.offset, 0x100U) << "the dma-buf begins with the page";
    EXPECT_EQ(Calls::region.iova, memory.address);
    EXPECT_EQ(Calls::region.length, memory.length);
    EXPECT_EQ(Calls::exported_begin, 0x7f00'0000'1000U);
    EXPECT_EQ(Calls::exported_size, 3 * page_size());
    EXPECT_EQ(Calls::peers, 0);
    EXPECT_FALSE(is_open(Calls::exported_fd)) << "the descriptor is not left open";
  }
  EXPECT_EQ(Calls::deregistered, 1);
}

TEST_F(DeviceRegistrationTest, ThenPeerMemory) {
  Calls::dma_buf_works = false;
  const auto registration = make();
  EXPECT_EQ(registration.path(), Path::peer_memory);
  EXPECT_EQ(Calls::region.iova, memory.address);
  EXPECT_THAT(registration.reason(), HasSubstr("dma-buf: ibv_reg_dmabuf_mr: "));
  EXPECT_FALSE(is_open(Calls::exported_fd));
}

TEST_F(DeviceRegistrationTest, ElseItSaysStageAndWhy) {
  Calls::export_works = Calls::peer_works = false;
  const auto registration = make();
  EXPECT_EQ(registration.path(), Path::staged);
  EXPECT_EQ(registration.region(), nullptr);
  EXPECT_THAT(registration.reason(),
              AllOf(HasSubstr("stage through pinned host memory"),
                    HasSubstr("the GPU's driver exports no dma-buf (code 801)"),
                    HasSubstr("peer memory: ibv_reg_mr: Bad address")));
  EXPECT_EQ(Calls::dma_bufs, 0);
}

TEST_F(DeviceRegistrationTest, ClosedRoutesAreNotTried) {
  functions.dma_buf_obstacle = "Linux 4.18";
  functions.peer_memory_obstacle = "no module";
  EXPECT_EQ(make().reason(),
            "stage through pinned host memory: dma-buf: Linux 4.18; peer memory: no module");
  EXPECT_EQ(Calls::dma_bufs + Calls::peers, 0);
}

TEST_F(DeviceRegistrationTest, NoFunctionIsNeeded) {
  functions = {};
  EXPECT_THAT(make().reason(), HasSubstr("libibverbs is not there"));
  functions.dereg_mr = &Calls::dereg_mr;
  EXPECT_THAT(make().reason(),
              AllOf(HasSubstr("no ibv_reg_dmabuf_mr"), HasSubstr("no ibv_reg_mr")));
  functions.reg_dmabuf_mr = &Calls::reg_dmabuf_mr;
  EXPECT_THAT(make().reason(), HasSubstr("no library exports dma-bufs"));
}

TEST_F(DeviceRegistrationTest, HsaSaysTheOffsetItself) {
  functions.export_pages = nullptr;
  functions.hsa_export = +[](const void*, std::size_t, int* fd, std::uint64_t* offset) {
    return *fd = ::dup(STDERR_FILENO), *offset = 0x5100, 0;
  };
  EXPECT_EQ(make().path(), Path::dma_buf);
  EXPECT_EQ(Calls::region.offset, 0x5100U);
}

/// Uses the machine's own libraries, or notices that they are absent.
TEST(DeviceRegistration, OnThisMachine) {
  const auto& report = gpu_direct();
  if (report.supported()) GTEST_SKIP() << "this machine needs a protection domain of its card";
  const auto registration = register_device_memory(load_gpu_direct(report), nullptr, {4096, 1}, 0);
  EXPECT_EQ(registration.path(), Path::staged);
  EXPECT_THAT(registration.reason(), HasSubstr("stage through pinned host memory: "));
}

}  // namespace
}  // namespace capstan
