#include "perf/measure/device_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/device/at_place.hpp"
#include "core/device/shared_library.hpp"

namespace capstan::perf {
namespace {

constexpr std::chrono::seconds longest_fill{60};

/// Loads the vendor's library, as a program that uses its GPUs does.
std::unique_ptr<DeviceDriver> driver_of(const std::string& vendor) {
  const bool cuda = vendor == "cuda";
  static_cast<void>(
      system_loader().open(cuda ? std::vector<std::string>{"libcuda.so.1"} : hip_libraries()));
  look_for_devices();
  FoundDriver found = cuda ? find_cuda_driver() : find_hip_driver();
  if (!found.driver)
    throw SystemError(fmt::format(
        "--device {}: {}: `capstan doctor` says what is missing; leave --device out to measure "
        "host memory",
        vendor, found.obstacle));
  return std::move(found.driver);
}

DeviceBuffer place_of(DeviceDriver& driver, const std::string& vendor, int number) {
  int devices = 0;
  int error = driver.initialize();
  if (error == 0) error = driver.count(devices);
  if (error != 0 || devices == 0)
    throw SystemError(fmt::format(
        "--device {}: {}", vendor,
        error != 0 ? "the driver does not answer: " + driver.text_of(error) : "there is no GPU"));
  return {&driver, {.context = nullptr, .device = number % devices}};
}

}  // namespace

DeviceCalls::DeviceCalls(Communicator& world, const std::string& vendor, int number)
    : driver_(driver_of(vendor)),
      where_(place_of(*driver_, vendor, number)),
      blocks_(where_, longest_fill),
      stream_(take_stream(where_)),
      streams_(world),
      on_stream_(streams_.on(stream_)) {}

DeviceCalls::~DeviceCalls() {
  give_back_stream(where_, stream_);
}

std::shared_ptr<std::byte> DeviceCalls::allocate(std::size_t bytes) {
  const auto block = std::make_shared<DeviceBlock>(where_, Bytes{bytes});
  return {block, block->data()};
}

void DeviceCalls::write(std::byte* to, std::span<const std::byte> from) {
  const auto host = pinned(from.size());
  std::ranges::copy(from, host->data());
  DeviceCopies copies{{.call = "perf: writing test data", .host_memory = host}};
  copies.copy(to, host->data(), from.size());
  copies.finish();
}

void DeviceCalls::read(std::span<std::byte> to, const std::byte* from) {
  const auto host = pinned(to.size());
  DeviceCopies copies{{.call = "perf: reading results", .host_memory = host}};
  copies.copy(host->data(), from, to.size());
  copies.finish();
  std::copy_n(host->data(), to.size(), to.begin());
}

/// Page-locked host memory, which the GPU copies from and to.
std::shared_ptr<PinnedMemory::Handle> DeviceCalls::pinned(std::size_t bytes) {
  return std::make_shared<PinnedMemory::Handle>(blocks_.pinned().allocate(Bytes{bytes}));
}

std::string DeviceCalls::algorithm(const Request& request) const {
  const std::string way = explain(request);
  const std::size_t colon = way.find(": ");
  if (colon == std::string::npos) return way;
  return way.starts_with("device executor") ? way.substr(colon + 2) : way.substr(0, colon);
}

void DeviceCalls::finish() {
  for (int state = DeviceDriver::not_ready; state == DeviceDriver::not_ready;)
    at_place(where_, "waiting for a stream", [&](DeviceDriver& driver) {
      state = driver.query(stream_);
      return state == DeviceDriver::not_ready ? 0 : state;
    });
}

}  // namespace capstan::perf
