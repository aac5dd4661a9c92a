// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/device_calls.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/net/shared_library.hpp"

namespace capstan::perf {
namespace {

using namespace std::chrono_literals;

/// Settings::timeout ends calls that hang long before: this is for drivers that never answer.
constexpr std::chrono::minutes longest_wait = 10min, longest_fill = 1min;

[[noreturn]] void refuse(const std::string& vendor, const std::string& why) {
  throw SystemError(fmt::format(
      "--device {}: {}; `capstan doctor` says what was found; leave --device out to measure host "
      "memory",
      vendor, why));
}

/// Loads the vendor's library, as a program that uses its GPUs does.
DeviceDriver& driver_of(const std::string& vendor) {
  const bool cuda = vendor == "cuda";
  const std::vector<std::string> files =
      cuda ? std::vector<std::string>{"libcuda.so.1"} : hip_libraries();
  if (!system_loader().open(files))
    refuse(vendor, fmt::format("{} cannot be loaded: install the vendor's driver, or name its "
                               "folder in LD_LIBRARY_PATH",
                               files.front()));
  look_for_devices();
  if (DeviceDriver* const driver = device_driver(cuda ? "CUDA" : "HIP")) return *driver;
  refuse(vendor, (cuda ? find_cuda_driver() : find_hip_driver()).obstacle);
}

DeviceBuffer place_of(DeviceDriver& driver, const std::string& vendor, int number) {
  int devices = 0;
  int error = driver.initialize();
  if (error == 0) error = driver.count(devices);
  if (error != 0) refuse(vendor, "the driver does not answer: " + driver.text_of(error));
  if (devices == 0) refuse(vendor, "there is no GPU");
  return {&driver, {.context = nullptr, .device = number % devices}};
}

}  // namespace

DeviceCalls::OwnStream::~OwnStream() {
  give_back_stream(where, stream);
}

DeviceCalls::DeviceCalls(Communicator& world, const std::string& vendor, int number)
    : where_(place_of(driver_of(vendor), vendor, number)),
      blocks_(where_, longest_fill),
      host_(std::make_shared<PinnedMemory::Handle>(blocks_.pinned().allocate(Bytes{piece}))),
      stream_{where_, take_stream(where_)},
      streams_(world),
      on_stream_(streams_.on(stream_.stream)) {}

std::shared_ptr<std::byte> DeviceCalls::allocate(std::size_t bytes) {
  const auto block = std::make_shared<DeviceBlock>(blocks_.zeros(Bytes{bytes}));
  return {block, block->data()};
}

void DeviceCalls::write(std::byte* to, std::span<const std::byte> from) {
  for (; !from.empty(); to += piece, from = from.subspan(std::min(piece, from.size()))) {
    const std::size_t size = std::min(piece, from.size());
    std::copy_n(from.data(), size, host_->data());
    copy(to, host_->data(), size);
  }
}

void DeviceCalls::read(std::span<std::byte> to, const std::byte* from) {
  for (; !to.empty(); from += piece, to = to.subspan(std::min(piece, to.size()))) {
    const std::size_t size = std::min(piece, to.size());
    copy(host_->data(), from, size);
    std::copy_n(host_->data(), size, to.data());
  }
}

void DeviceCalls::copy(void* to, const void* from, std::size_t bytes) {
  DeviceCopies copies{{.call = "perf: copying test data", .host_memory = host_}};
  copies.copy(to, from, bytes);
  copies.finish();
}

std::string DeviceCalls::algorithm(const Request& request) const {
  const std::string way = explain(request);
  const std::size_t colon = way.find(": ");
  if (colon == std::string::npos) return way;
  return way.starts_with("device executor") ? way.substr(colon + 2) : way.substr(0, colon);
}

/// Gives the core away between looks: the thread that moves staged data may need it.
void DeviceCalls::finish() {
  const Deadline deadline = Deadline::in(longest_wait);
  for (int state = DeviceDriver::not_ready; state == DeviceDriver::not_ready;) {
    at_place(where_, "waiting for a stream", [&](DeviceDriver& driver) {
      state = driver.query(stream_.stream);
      return state == DeviceDriver::not_ready ? 0 : state;
    });
    if (state == 0) break;
    if (deadline.expired())
      throw SystemError(fmt::format("--device: device {} did not finish its calls within {}",
                                    where_.place.device, longest_wait));
    std::this_thread::yield();
  }
  if (const auto failure = streams_.async_error()) std::rethrow_exception(failure);
}

}  // namespace capstan::perf
