// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/gpu_direct.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "capstan/error.hpp"
#include "core/platform/device/device_registration.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/fake_libraries.hpp"

#if __has_include(<rdma/fabric.h>)
#include <rdma/fabric.h>
#endif

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A machine made of files and functions.
struct GpuDirectTest : ::testing::Test {
  GpuDirectTest() {
    system.root = folder.path();
    system.loader = &libraries;
  }

  void file(const std::string& path, const std::string& contents = "") const {
    std::filesystem::create_directories((system.root / path).parent_path());
    std::ofstream{system.root / path} << contents << '\n';
  }
  void kernel(const std::string& release) const { file("proc/sys/kernel/osrelease", release); }
  void network_card() const { file("sys/class/infiniband/mlx5_0/device/vendor", "0x15b3"); }
  void libibverbs() {
    libraries["libibverbs.so.1"].add("ibv_reg_mr", +[] {});
    libraries["libibverbs.so.1"].add("ibv_reg_dmabuf_mr", +[] {});
    libraries["libibverbs.so.1"].add("ibv_dereg_mr", +[] {});
  }

  void nvidia() {
    file("sys/bus/pci/devices/0000:01:00.0/class", "0x030200");
    file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de");
    file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module");
    auto& cuda = libraries["libcuda.so.1"];
    cuda.add("cuMemGetHandleForAddressRange", +[] {});
    cuda.add("cuInit", +[](unsigned) { return 0; });
    cuda.add(
        "cuDeviceGetAttribute",
        +[](int* value, int attribute, int) { return *value = attribute == 124 ? 1 : 0, 0; });
  }
  void amd() {
    file("sys/bus/pci/devices/0000:03:00.0/class", "0x038000");
    file("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002");
    file("sys/module/amdgpu/version", "6.7.0");
    libraries["libhsa-runtime64.so.1"].add("hsa_amd_portable_export_dmabuf", +[] {});
  }
  void complete_nvidia_machine() {
    kernel("6.1.0-18-amd64");
    network_card();
    libibverbs();
    nvidia();
  }

  /// Why a route is closed: "subject: reason (remedy)"; empty when it is open.
  std::string obstacle(GpuDirectRoute route) const {
    const auto report = detect_gpu_direct(system);
    const Finding* found = report.find(route)->obstacle();
    if (found == nullptr) return "";
    return found->subject + ": " + found->reason + " (" + found->remedy + ")";
  }
  std::string dma_buf() const { return obstacle(GpuDirectRoute::dma_buf); }
  std::string peer_memory() const { return obstacle(GpuDirectRoute::peer_memory); }
  std::string libfabric() const { return obstacle(GpuDirectRoute::libfabric); }

  const test::TemporaryFolder folder;
  SystemView system;
  FakeLibraries libraries;
};

TEST_F(GpuDirectTest, AnEmptyMachineHasNothing) {
  const auto report = detect_gpu_direct(system);
  EXPECT_FALSE(report.supported());
  EXPECT_FALSE(report.vendor);
  ASSERT_EQ(report.routes.size(), 3U);
  for (const RouteReport& route : report.routes)
    for (const Finding& finding : route.findings) {
      EXPECT_FALSE(finding.ok) << finding.subject;
      EXPECT_FALSE(finding.reason.empty()) << finding.subject;
      EXPECT_FALSE(finding.remedy.empty()) << finding.subject;
    }
  try {
    report.require();
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("dma-buf: this machine has no GPU"),
                                    HasSubstr("peer memory: "), HasSubstr("libfabric FI_HMEM: ")));
  }
}

TEST_F(GpuDirectTest, ACompleteMachineHasDmaBufs) {
  complete_nvidia_machine();
  EXPECT_EQ(dma_buf(), "");
  const auto report = detect_gpu_direct(system);
  EXPECT_EQ(report.vendor, GpuVendor::nvidia);
  EXPECT_NO_THROW(report.require());
  for (const Finding& finding : report.find(GpuDirectRoute::dma_buf)->findings)
    EXPECT_EQ(finding.remedy, "") << finding.subject;
}

TEST_F(GpuDirectTest, DmaBufsNeedLinux512) {
  complete_nvidia_machine();
  for (const char* recent : {"5.12.0", "5.15.0-91-generic", "6.1.0"}) {
    kernel(recent);
    EXPECT_EQ(dma_buf(), "") << recent;
  }
  for (const char* old : {"5.11.22", "4.18.0-513.el8", "3.10.0"}) {
    kernel(old);
    EXPECT_THAT(dma_buf(), AllOf(HasSubstr(old), HasSubstr("5.12 or later")));
  }
  kernel("unreadable");
  EXPECT_THAT(dma_buf(), HasSubstr("unknown version"));
}

TEST_F(GpuDirectTest, EachMissingPartIsNamed) {
  complete_nvidia_machine();
  std::filesystem::remove_all(system.root / "sys/class/infiniband");
  EXPECT_THAT(dma_buf(), HasSubstr("network card: this machine has no RDMA device"));
  file("sys/class/infiniband/rxe0/node_type", "1: CA");
  EXPECT_THAT(dma_buf(), HasSubstr("rxe0 copies with the CPU"));
  network_card();
  EXPECT_EQ(dma_buf(), "");

  libraries.remove("libibverbs.so.1");
  EXPECT_THAT(dma_buf(), HasSubstr("libibverbs.so.1 is not installed"));
  libraries["libibverbs.so.1"].add("ibv_reg_mr", +[] {});
  EXPECT_THAT(dma_buf(), HasSubstr("it has no ibv_reg_dmabuf_mr (use rdma-core"));
  libibverbs();

  std::filesystem::remove_all(system.root / "proc/driver");
  EXPECT_THAT(dma_buf(), HasSubstr("GPU driver: the kernel module nvidia is not loaded"));
  file("proc/modules", "nvidia_uvm 1 0 - Live\nnvidia 56823808 3 nvidia_uvm, Live 0x0 (POE)");
  EXPECT_EQ(dma_buf(), "");
}

TEST_F(GpuDirectTest, TheCudaDriverIsAsked) {
  complete_nvidia_machine();
  auto& cuda = libraries["libcuda.so.1"];
  cuda.add("cuDeviceGetAttribute", +[](int* value, int, int) { return *value = 0, 0; });
  EXPECT_THAT(dma_buf(), HasSubstr("open kernel modules"));
  cuda.add("cuInit", +[](unsigned) { return 100; });
  EXPECT_THAT(dma_buf(), HasSubstr("the CUDA driver does not start"));
  cuda.remove("cuMemGetHandleForAddressRange");
  EXPECT_THAT(dma_buf(), HasSubstr("515 or later"));
  libraries.remove("libcuda.so.1");
  EXPECT_THAT(dma_buf(), HasSubstr("libcuda.so.1 is not installed"));
}

TEST_F(GpuDirectTest, PeerMemoryNeedsItsModule) {
  complete_nvidia_machine();
  kernel("4.18.0");
  EXPECT_THAT(peer_memory(), HasSubstr("nvidia_peermem is not loaded (modprobe nvidia_peermem)"));
  file("proc/modules", "nvidia_peermem 16384 0 - Live 0x0000000000000000");
  EXPECT_EQ(peer_memory(), "");
  EXPECT_TRUE(detect_gpu_direct(system).supported()) << "though the kernel is too old for dma-bufs";
}

TEST_F(GpuDirectTest, TheOlderModuleDoesToo) {
  complete_nvidia_machine();
  file("sys/module/nv_peer_mem/version", "1.1");
  EXPECT_EQ(peer_memory(), "");
}

TEST_F(GpuDirectTest, AnAmdMachine) {
  kernel("6.1.0");
  network_card();
  libibverbs();
  amd();
  EXPECT_EQ(detect_gpu_direct(system).vendor, GpuVendor::amd);
  EXPECT_EQ(dma_buf(), "");
  libraries.remove("libhsa-runtime64.so.1");
  EXPECT_THAT(dma_buf(), HasSubstr("ROCm"));
  libraries["libamdhip64.so.6"].add("hipMemGetHandleForAddressRange", +[] {});
  EXPECT_EQ(dma_buf(), "");
  EXPECT_THAT(peer_memory(), HasSubstr("amdgpu does not offer"));
  file("sys/kernel/mm/memory_peers/amdkfd/version", "1.0");
  EXPECT_EQ(peer_memory(), "");
}

TEST_F(GpuDirectTest, OtherDisplaysAndCardsAreNoGpus) {
  file("sys/bus/pci/devices/0000:00:02.0/class", "0x030000");
  file("sys/bus/pci/devices/0000:00:02.0/vendor", "0x1234");
  file("sys/bus/pci/devices/0000:04:00.0/class", "0x020000");  // NVIDIA's, but an Ethernet card
  file("sys/bus/pci/devices/0000:04:00.0/vendor", "0x10de");
  EXPECT_FALSE(detect_gpu_direct(system).vendor);
}

TEST_F(GpuDirectTest, AContainerShowsDeviceFilesOnly) {
  file("dev/kfd");
  EXPECT_EQ(detect_gpu_direct(system).vendor, GpuVendor::amd);
  file("dev/nvidia0");
  EXPECT_EQ(detect_gpu_direct(system).vendor, GpuVendor::nvidia);
}

#if __has_include(<rdma/fabric.h>)
/// A libfabric with three providers, of which one takes device memory by hardware.
TEST_F(GpuDirectTest, LibfabricIsAskedForItsProviders) {
  static char tcp[] = "tcp;ofi_rxm", efa[] = "efa", verbs[] = "verbs";
  static fi_fabric_attr fabrics[4] = {};
  static fi_info infos[4] = {};
  static fi_domain_attr domain{};
  static fi_info hints{};
  static int freed = 0;
  char* const providers[] = {tcp, efa, efa, verbs};
  for (int i = 0; i < 4; ++i) {
    fabrics[i].prov_name = providers[i];
    infos[i].next = i < 3 ? &infos[i + 1] : nullptr;
    infos[i].caps = i < 3 ? FI_HMEM : 0;
    infos[i].fabric_attr = &fabrics[i];
  }
  nvidia();
  auto& library = libraries["libfabric.so.1"];
  EXPECT_THAT(libfabric(), HasSubstr("libfabric.so.1 lacks fi_getinfo"));
  for (const char* name : {"fi_fabric", "fi_version"}) library.add(name, +[] {});
  library.add("fi_strerror", +[](int) { return "some error"; });
  library.add(
      "fi_dupinfo",
      +[](const fi_info*) { return hints = {}, hints.domain_attr = &domain, &hints; });
  library.add("fi_freeinfo", +[](fi_info*) { ++freed; });
  library.add(
      "fi_getinfo", +[](std::uint32_t version, const char*, const char*, std::uint64_t,
                        const fi_info* wanted, fi_info** found) {
        EXPECT_EQ(version, FI_VERSION(1, 11));
        EXPECT_EQ(wanted->caps, FI_HMEM);
        EXPECT_NE(wanted->domain_attr->mr_mode & FI_MR_HMEM, 0);
        return *found = infos, 0;
      });
  EXPECT_EQ(libfabric(), "");
  EXPECT_EQ(freed, 2);
  EXPECT_EQ(detect_gpu_direct(system).find(GpuDirectRoute::libfabric)->findings.back().reason,
            "providers with FI_HMEM: efa");
  library.add(
      "fi_getinfo", +[](std::uint32_t, const char*, const char*, std::uint64_t, const fi_info*,
                        fi_info**) { return -61; });
  EXPECT_THAT(libfabric(), HasSubstr("no provider has FI_HMEM"));
}
#endif

/// Every machine gets a report with reasons, which does not change.
TEST(GpuDirect, OfThisMachine) {
  const GpuDirectReport& report = gpu_direct();
  EXPECT_EQ(&report, &gpu_direct());
  for (const RouteReport& route : report.routes) {
    if (route.available()) continue;
    EXPECT_FALSE(route.obstacle()->reason.empty());
    EXPECT_FALSE(route.obstacle()->remedy.empty());
  }
  if (!report.supported()) {
    EXPECT_THROW(report.require(), SystemError);
  }
}

TEST_F(GpuDirectTest, TheTableIsFilledFromTheLibraries) {
  complete_nvidia_machine();
  auto functions = load_gpu_direct(detect_gpu_direct(system), libraries);
  EXPECT_NE(functions.reg_dmabuf_mr, nullptr);
  EXPECT_EQ(functions.hsa_export, nullptr);
  EXPECT_EQ(functions.dma_buf_obstacle, "");
  EXPECT_THAT(functions.peer_memory_obstacle, HasSubstr("nvidia_peermem"));
}

}  // namespace
}  // namespace capstan
