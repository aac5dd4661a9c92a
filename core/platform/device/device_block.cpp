// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/gpu_page_locker.hpp"

namespace capstan {
namespace {

std::unique_ptr<PageLocker> locker_of(const DeviceBuffer& where) {
  const auto name = where.driver->name();
  auto locker = name == "HIP" ? make_hip_locker() : make_cuda_locker();
  if (!locker) throw SystemError(fmt::format("{} gives no page-locked host memory", name));
  return locker;
}

}  // namespace

DeviceBlock::DeviceBlock(const DeviceBuffer& where, Bytes size, bool shared)
    : where_(where), size_(size) {
  at_place(where_, fmt::format("allocating {}", readable(size)), [&](DeviceDriver& driver) {
    void* memory = nullptr;
    const std::size_t bytes = std::max<std::size_t>(size.value(), 1);
    const int error =
        shared ? driver.allocate_shared(bytes, memory) : driver.allocate(bytes, memory);
    data_ = static_cast<std::byte*>(memory);
    return error;
  });
}

DeviceBlock::~DeviceBlock() {
  if (!data_) return;
  try {
    at_place(where_, "releasing memory",
             [&](DeviceDriver& driver) { return driver.release(data_); });
  } catch (const Error&) {  // a lost device has none any more
  }
}

DeviceBlocks::DeviceBlocks(const DeviceBuffer& where, std::chrono::milliseconds timeout)
    : asked_(where), where_(where), timeout_(timeout), pinned_(locker_of(where)) {
  stream_ = take_stream(asked_);
  DevicePlace exact = where_.place;  // memory of pools knows no context
  if (where_.driver->place_of_stream(stream_, exact) == 0) where_.place = exact;
}

DeviceBlocks::~DeviceBlocks() {
  if (stream_) give_back_stream(asked_, stream_);
}

DeviceBlock DeviceBlocks::cleared(DeviceBlock block, Bytes part, Bytes first) {
  at_place(where_, "clearing memory", [&](DeviceDriver& driver) {
    int error = 0;
    for (std::uint64_t at = 0; at < block.size().value() && error == 0; at += part.value())
      error = driver.set_zero(block.data() + at, first.value(), stream_);
    return error;
  });
  finish(block);
  return block;
}

DeviceBlock DeviceBlocks::image(std::span<const std::byte> bytes) {
  DeviceBlock block{where_, Bytes{bytes.size()}};
  if (bytes.empty()) return block;
  auto pinned = pinned_.allocate(Bytes{bytes.size()});
  std::ranges::copy(bytes, pinned.data());
  at_place(where_, "starting a copy", [&](DeviceDriver& driver) {
    return driver.start_copy(DeviceDriver::Direction::to_device, block.data(), pinned.data(),
                             bytes.size(), stream_);
  });
  try {
    finish(block);
  } catch (const Error&) {  // the device may still read it
    keep_for_good(std::make_shared<PinnedMemory::Handle>(std::move(pinned)));
    throw;
  }
  return block;
}

void DeviceBlocks::finish(DeviceBlock& block) {
  const Deadline deadline = Deadline::in(timeout_);
  for (int state = DeviceDriver::not_ready; state == DeviceDriver::not_ready;) {
    at_place(where_, "filling memory", [&](DeviceDriver& driver) {
      state = driver.query(stream_);
      return 0;
    });
    if (state == 0) return;
    if (state == DeviceDriver::not_ready && !deadline.expired()) {
      std::this_thread::sleep_for(std::chrono::microseconds{20});
      continue;
    }
    block.keep_for_good();
    stream_ = nullptr;  // not used again
    throw SystemError(fmt::format("filling memory of device {} failed: {}", where_.place.device,
                                  where_.driver->text_of(state)));
  }
}

}  // namespace capstan
