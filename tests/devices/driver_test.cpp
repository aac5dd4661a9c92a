// SPDX-License-Identifier: Apache-2.0

// The one interface to drivers, over a shared library that implements a driver's functions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/platform/device/device_driver.hpp"
#include "core/platform/device/device_link.hpp"
#include "core/platform/device/gpu_page_locker.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {
namespace {

using ::testing::IsEmpty;

FoundDriver find_driver() {
#ifdef FAKE_HIP
  return find_hip_driver();
#else
  return find_cuda_driver();
#endif
}

/// Makes device 0 current, as every call that needs a place expects.
class DriverOverALibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    driver_ = find_driver().driver;
    ASSERT_NE(driver_, nullptr);
    ASSERT_EQ(driver_->initialize(), 0);
    ASSERT_EQ(driver_->enter({}, former_), 0);
  }
  void TearDown() override {
    driver_->leave(former_);
    EXPECT_EQ(driver_knob("depth"), 0);
  }

  template <class Make>
  static void* made(Make make) {
    void* result = nullptr;
    EXPECT_EQ(make(result), 0);
    return result;
  }
  void* stream() {
    return made([&](void*& to) { return driver_->make_stream(to); });
  }
  void* event(bool timed = false) {
    return made([&](void*& to) { return driver_->make_event(to, timed); });
  }
  void* memory(std::size_t bytes) {
    return made([&](void*& to) { return driver_->allocate(bytes, to); });
  }

  std::unique_ptr<DeviceDriver> driver_;
  int former_ = 0;
};

TEST_F(DriverOverALibrary, HasAllFunctionsAndKnowsTheMachine) {
  EXPECT_THAT(driver_->missing(), IsEmpty());
  int devices = 0;
  EXPECT_EQ(driver_->count(devices), 0);
  EXPECT_EQ(devices, 2);
  std::string address;
  EXPECT_EQ(driver_->pci_address(1, address), 0);
  EXPECT_EQ(address, "0000:b0:00.0");
  bool can = false;
  EXPECT_EQ(driver_->can_access_peer(0, 1, can), 0);
  EXPECT_TRUE(can);
  EXPECT_EQ(link_to(*driver_, 0, "0000:a0:00.0"), DeviceLink::memory);
  EXPECT_EQ(link_to(*driver_, 0, "0000:b0:00.0"), DeviceLink::bus);
  driver_knob("linked", 1);
  EXPECT_EQ(link_to(*driver_, 0, "0000:b0:00.0"), DeviceLink::direct);
  EXPECT_EQ(link_to(*driver_, 0, "0000:c0:00.0"), DeviceLink::bus) << "hidden from the process";
  driver_knob("linked", -1);
  EXPECT_EQ(driver_->enable_peer({nullptr, 1}), 0);
  EXPECT_EQ(driver_->enable_peer({nullptr, 1}), 0) << "twice is no error";
}

TEST_F(DriverOverALibrary, MemoryIsOnTheDeviceUntilItIsReleased) {
  void* const block = memory(4096);
  ASSERT_TRUE(driver_->place_of(block));
  EXPECT_EQ(driver_->place_of(block)->device, 0);
  EXPECT_EQ(driver_->release(block), 0);
  EXPECT_FALSE(driver_->place_of(block));
  driver_knob("no_memory", 1);
  void* none = nullptr;
  EXPECT_EQ(driver_->allocate(4096, none), 2);
}

TEST_F(DriverOverALibrary, TimedEventsTellTheTimeBetweenThem) {
  void *const own = stream(), *const device = memory(64);
  void *const first = event(true), *const second = event(true), *const untimed = event();
  for (void* const each : {first, untimed, second}) {
    EXPECT_EQ(driver_->record(each, own), 0);
    EXPECT_EQ(driver_->set_zero(device, 64, own), 0);
  }
  while (driver_->query(own) == DeviceDriver::not_ready) ::usleep(100);
  float milliseconds = -1;
  EXPECT_EQ(driver_->elapsed(first, second, milliseconds), 0);
  EXPECT_GT(milliseconds, 0);
  EXPECT_NE(driver_->elapsed(first, untimed, milliseconds), 0);
  for (void* const each : {first, second, untimed}) EXPECT_EQ(driver_->release_event(each), 0);
}

/// The flag holds the first stream, and the event the second one.
TEST_F(DriverOverALibrary, StreamsAreOrderedByFlagsAndEvents) {
  const auto locker = make_page_locker();
  const AddressRange pages = locker->allocate(Bytes{8192});
  auto* const host = static_cast<std::byte*>(pages.data());
  auto* const flag = reinterpret_cast<std::uint32_t*>(host + 4096);
  std::memset(host, 0, 8192);
  std::memset(host, 7, 64);
  void* const device = memory(64);
  void *const first = stream(), *const second = stream(), *const came = event();

  using enum DeviceDriver::Direction;
  EXPECT_EQ(driver_->wait_for_flag(first, flag, 3), 0);
  EXPECT_EQ(driver_->start_copy(to_device, device, host, 64, first), 0);
  EXPECT_EQ(driver_->record(came, first), 0);
  EXPECT_EQ(driver_->wait_for_event(second, came), 0);
  EXPECT_EQ(driver_->start_copy(to_host, host + 1024, device, 64, second), 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(driver_->query_event(came), DeviceDriver::not_ready);
    EXPECT_EQ(driver_->query(second), DeviceDriver::not_ready);
    ::usleep(200);
  }
  std::atomic_ref{*flag}.store(3, std::memory_order_release);
  while (driver_->query(second) == DeviceDriver::not_ready) ::usleep(100);
  EXPECT_EQ(driver_->query(second), 0);
  EXPECT_EQ(driver_->query_event(came), 0);
  EXPECT_EQ(host[1024 + 63], std::byte{7});
  EXPECT_EQ(driver_->release_event(came), 0);
  locker->deallocate(pages);
}

TEST_F(DriverOverALibrary, AStreamKnowsItsPlaceAndWhetherItIsCaptured) {
  void* own = stream();
  void* const stale = &own;
  DevicePlace place{stale, 5};
  EXPECT_EQ(driver_->place_of_stream(own, place), 0);
  EXPECT_EQ(place.device, 0);
  EXPECT_NE(place.context, stale);
  bool capturing = true;
  EXPECT_EQ(driver_->is_capturing(own, capturing), 0);
  EXPECT_FALSE(capturing);
  driver_knob("capturing", 1);
  EXPECT_EQ(driver_->is_capturing(own, capturing), 0);
  driver_knob("capturing", -1);
  EXPECT_TRUE(capturing);
}

TEST_F(DriverOverALibrary, MemoryIsMappedByItsHandleAndByItsDmaBuf) {
  Memory block{Where::device, 4096};
  block.write(std::vector<std::byte>(4096, std::byte{42}));
  DeviceMemoryHandle handle;
  ASSERT_EQ(driver_->export_memory(block.data(), handle), 0);
  void* again = nullptr;
  ASSERT_EQ(driver_->open_memory(handle, again), 0);
  EXPECT_NE(again, block.data());
  EXPECT_TRUE(driver_->place_of(again));
  EXPECT_EQ(driver_->close_memory(again), 0);
  EXPECT_FALSE(driver_->place_of(again));

  int descriptor = -1;
  ASSERT_EQ(driver_->export_dma_buf(block.data(), 4096, descriptor), 0);
  std::byte last{};
  EXPECT_EQ(::pread(descriptor, &last, 1, 4095), 1);
  EXPECT_EQ(last, std::byte{42});
  ::close(descriptor);
  EXPECT_NE(driver_->export_dma_buf(&last, 4096, descriptor), 0) << "memory of the host";
}

TEST_F(DriverOverALibrary, ALostDeviceIsAnErrorOfEveryQuery) {
  void *const own = stream(), *const came = event();
  EXPECT_EQ(driver_->record(came, own), 0);
  driver_knob("lost", 719);
  EXPECT_EQ(driver_->query(own), 719);
  EXPECT_EQ(driver_->query_event(came), 719);
  driver_knob("lost", -719);
  EXPECT_EQ(driver_->text_of(719), "unspecified launch failure (719)");
}

}  // namespace
}  // namespace capstan
