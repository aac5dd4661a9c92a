// SPDX-License-Identifier: Apache-2.0

// The drivers of devices that a process has, and the libraries that are loaded to find out.

#include "core/platform/device/device_driver.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"
#include "tests/unit/fake_libraries.hpp"

namespace capstan {
namespace {

/// A driver that knows one buffer on device 3.
struct FakeDriver {
  inline static int buffer = 0, other = 0, hip_version = 0, errors_taken = 0;
  inline static bool initialized = true, managed = false;

  struct HipAttributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int managed;
    unsigned flags;
  };

  static int cuda_attributes(unsigned count, int* attributes, void** values,
                             unsigned long long pointer) {
    if (!initialized) return 3;
    const bool known = pointer == reinterpret_cast<unsigned long long>(&buffer);
    for (unsigned i = 0; i < count; ++i) {
      if (attributes[i] == 1) *static_cast<void**>(values[i]) = known ? &other : nullptr;
      if (attributes[i] == 2) *static_cast<int*>(values[i]) = known ? 2 : 0;
      if (attributes[i] == 8) *static_cast<int*>(values[i]) = managed;
      if (attributes[i] == 9) *static_cast<int*>(values[i]) = known ? 3 : -2;
    }
    return 0;
  }
  static int hip_attributes(HipAttributes* attributes, const void* pointer) {
    if (pointer != &buffer) return 1;
    *attributes = {hip_version < 60'000'000 ? 1 : 2, 3, nullptr, nullptr, managed, 0};
    return 0;
  }

  static FakeLibraries::Symbols cuda() {
    FakeLibraries::Symbols all;
    const auto nothing = +[]() { return 0; };
    for (const char* name :
         {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamCreate",
          "cuStreamQuery", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuGetErrorString"})
      all.add(name, nothing);
    all.add("cuPointerGetAttributes", &cuda_attributes);
    return all;
  }
  static FakeLibraries::Symbols hip() {
    FakeLibraries::Symbols all;
    const auto nothing = +[]() { return 0; };
    for (const char* name : {"hipGetDevice", "hipSetDevice", "hipStreamCreateWithFlags",
                             "hipStreamQuery", "hipMemcpyAsync", "hipGetErrorString"})
      all.add(name, nothing);
    all.add("hipPointerGetAttributes", &hip_attributes);
    all.add("hipGetLastError", +[]() { return ++errors_taken; });
    all.add("hipRuntimeGetVersion", +[](int* version) { return *version = hip_version, 0; });
    return all;
  }
};

/// A machine with or without device files, which its destructor removes.
class DriverMachine {
 public:
  explicit DriverMachine(const std::string& node = "") {
    std::filesystem::create_directories(root_ / "dev");
    if (!node.empty()) std::ofstream{root_ / node};
  }
  SystemView view(const LibraryLoader& loader) const { return {root_.path(), &loader}; }

 private:
  test::TemporaryFolder root_;
};

TEST(DeviceDrivers, NothingIsLoadedWhereThereIsNoDevice) {
  FakeLibraries libraries{{"libcuda.so.1", FakeDriver::cuda()},
                          {"libamdhip64.so", FakeDriver::hip()}};
  libraries.all_loaded = false;
  EXPECT_EQ(find_cuda_driver(DriverMachine{}.view(libraries)).driver, nullptr);
  EXPECT_EQ(find_hip_driver(DriverMachine{}.view(libraries)).driver, nullptr);
  // HIP initialises itself at the first query about a pointer.
  EXPECT_EQ(find_hip_driver(DriverMachine{"dev/kfd"}.view(libraries)).driver, nullptr);
  EXPECT_EQ(libraries.opened, 0);
  EXPECT_NE(find_cuda_driver(DriverMachine{"dev/nvidiactl"}.view(libraries)).driver, nullptr);
  EXPECT_EQ(libraries.opened, 1);
  libraries.all_loaded = true;
  EXPECT_NE(find_cuda_driver(DriverMachine{}.view(libraries)).driver, nullptr);
  EXPECT_NE(find_hip_driver(DriverMachine{}.view(libraries)).driver, nullptr);
}

TEST(DeviceDrivers, ALibraryThatLacksAFunctionIsNoDriver) {
  FakeLibraries libraries{{"libcuda.so.1", FakeDriver::cuda()},
                          {"libamdhip64.so", FakeDriver::hip()}};
  libraries["libcuda.so.1"].remove("cuStreamQuery");
  libraries["libcuda.so.1"].remove("cuCtxPopCurrent_v2");
  libraries["libamdhip64.so"].remove("hipMemcpyAsync");
  const FoundDriver cuda = find_cuda_driver(DriverMachine{}.view(libraries));
  EXPECT_EQ(cuda.driver, nullptr);
  EXPECT_EQ(cuda.obstacle, "libcuda.so.1 lacks cuCtxPopCurrent_v2, cuStreamQuery");
  const FoundDriver hip = find_hip_driver(DriverMachine{}.view(libraries));
  EXPECT_EQ(hip.driver, nullptr);
  EXPECT_EQ(hip.obstacle, "libamdhip64 lacks hipMemcpyAsync");
}

TEST(DeviceDrivers, WithoutALibraryThereIsAReason) {
  const FakeLibraries none;
  EXPECT_EQ(find_cuda_driver(DriverMachine{}.view(none)).obstacle,
            "there is no NVIDIA device, and libcuda.so.1 is not loaded");
  EXPECT_EQ(find_cuda_driver(DriverMachine{"dev/nvidiactl"}.view(none)).obstacle,
            "there is an NVIDIA device, but libcuda.so.1 cannot be loaded");
  EXPECT_EQ(find_hip_driver(DriverMachine{}.view(none)).obstacle,
            "libamdhip64 is not loaded: HIP is used where the program has loaded it");
}

/// An old driver copies, and refuses what it cannot do.
TEST(DeviceDrivers, AnOldDriverNamesTheFunctionsThatItLacks) {
  FakeLibraries libraries{{"libcuda.so.1", FakeDriver::cuda()},
                          {"libamdhip64.so", FakeDriver::hip()}};
  for (auto found : {find_cuda_driver, find_hip_driver}) {
    const auto driver = found(DriverMachine{}.view(libraries)).driver;
    ASSERT_NE(driver, nullptr);
    int number = 0;
    void* made = nullptr;
    float milliseconds = 0;
    std::string text;
    bool yes = true;
    DeviceMemoryHandle handle;
    EXPECT_EQ(driver->initialize(), DeviceDriver::not_supported);
    EXPECT_EQ(driver->count(number), DeviceDriver::not_supported);
    EXPECT_EQ(driver->pci_address(0, text), DeviceDriver::not_supported);
    EXPECT_EQ(driver->can_access_peer(0, 1, yes), DeviceDriver::not_supported);
    EXPECT_FALSE(yes);
    EXPECT_EQ(driver->allocate(8, made), DeviceDriver::not_supported);
    EXPECT_EQ(driver->export_memory(nullptr, handle), DeviceDriver::not_supported);
    EXPECT_EQ(driver->export_dma_buf(nullptr, 4096, number), DeviceDriver::not_supported);
    EXPECT_EQ(driver->make_event(made, false), DeviceDriver::not_supported);
    EXPECT_EQ(driver->elapsed(nullptr, nullptr, milliseconds), DeviceDriver::not_supported);
    EXPECT_EQ(driver->wait_for_flag(nullptr, nullptr, 1), DeviceDriver::not_supported);
    EXPECT_EQ(driver->is_linked(0, 1, yes), DeviceDriver::not_supported);
    EXPECT_FALSE(driver->raises_words());
    EXPECT_EQ(driver->raise_word(nullptr, nullptr, 1), DeviceDriver::not_supported);
    EXPECT_EQ(driver->processes_overlap(0, yes) == 0 && yes, driver->name() == "HIP");
    // AMD's has one more, for memory that devices share.
    EXPECT_EQ(driver->missing().size(), driver->name() == "HIP" ? 31U : 30U);
  }
  FakeLibraries::Symbols newer = FakeDriver::cuda();
  newer.add("cuStreamWaitValue32", +[]() { return 0; });
  const FakeLibraries older_name{{"libcuda.so.1", newer}};
  const auto driver = find_cuda_driver(DriverMachine{}.view(older_name)).driver;
  EXPECT_EQ(driver->wait_for_flag(nullptr, nullptr, 1), 0) << "an older name serves as well";
}

TEST(DeviceDrivers, CudaKnowsItsMemoryOnceTheProgramHasInitialisedIt) {
  const FakeLibraries libraries{{"libcuda.so.1", FakeDriver::cuda()}};
  const auto driver = find_cuda_driver(DriverMachine{}.view(libraries)).driver;
  ASSERT_NE(driver, nullptr);
  FakeDriver::initialized = false;
  EXPECT_FALSE(driver->place_of(&FakeDriver::buffer));
  FakeDriver::initialized = true;
  EXPECT_EQ(driver->place_of(&FakeDriver::buffer), (DevicePlace{&FakeDriver::other, 3}));
  EXPECT_FALSE(driver->place_of(&FakeDriver::other));
  FakeDriver::managed = true;
  EXPECT_FALSE(driver->place_of(&FakeDriver::buffer));
  FakeDriver::managed = false;
}

TEST(DeviceDrivers, HipNumberedItsTypesAnew) {
  const FakeLibraries libraries{{"libamdhip64.so", FakeDriver::hip()}};
  for (const int version : {50'221'153, 60'342'134}) {
    FakeDriver::hip_version = version;
    const auto driver = find_hip_driver(DriverMachine{}.view(libraries)).driver;
    ASSERT_NE(driver, nullptr);
    EXPECT_EQ(driver->place_of(&FakeDriver::buffer), (DevicePlace{nullptr, 3})) << version;
    const int before = FakeDriver::errors_taken;
    EXPECT_FALSE(driver->place_of(&FakeDriver::other));
    EXPECT_EQ(FakeDriver::errors_taken, before + 1) << "the program would find an error";
    FakeDriver::managed = true;
    EXPECT_FALSE(driver->place_of(&FakeDriver::buffer));
    FakeDriver::managed = false;
  }
}

}  // namespace
}  // namespace capstan
