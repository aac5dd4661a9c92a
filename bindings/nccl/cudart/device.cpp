// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/cudart/device.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "bindings/nccl/cudart/runtime.hpp"

namespace capstan::cudart {
namespace {

/// More streams than this many devices have would only take turns on the cores of a host.
constexpr int most_devices = 1024;

int usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2;
}

int devices_of_the_host() {
  if (const char* const wanted = std::getenv("CAPSTAN_CUDA_DEVICES"))
    return std::clamp(std::atoi(wanted), 0, most_devices);
  return std::clamp(usable_cores(), 2, 8);
}

/// The number of devices that a list as in CUDA_VISIBLE_DEVICES names. The list ends at the first
/// entry that is not a device.
int devices_listed(std::string_view list, int devices) {
  int count = 0;
  while (!list.empty() && count < devices) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, comma);
    if (entry.empty() || entry.front() == '-') break;
    ++count;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return count;
}

std::vector<std::unique_ptr<Device>>& devices() {
  static auto* const all = [] {
    auto* const made = new std::vector<std::unique_ptr<Device>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<Device>(i));
    return made;
  }();
  return *all;
}

}  // namespace

std::shared_ptr<Stream> Device::add(unsigned flags) {
  auto stream = std::make_shared<Stream>(default_->device(), flags);
  const std::scoped_lock lock{mutex_};
  std::erase_if(streams_, [](const auto& old) { return old->closed() && old->idle(); });
  streams_.push_back(stream);
  return stream;
}

std::vector<std::shared_ptr<Moment>> Device::before(const Stream& stream) {
  std::vector<std::shared_ptr<Moment>> moments;
  const auto add = [&](Stream& other) {
    if (auto moment = other.mark()) moments.push_back(std::move(moment));
  };
  if (&stream != default_.get()) {
    if (stream.blocking()) add(*default_);
    return moments;
  }
  for (const auto& other : streams_)
    if (other->blocking()) add(*other);
  return moments;
}

void Device::put(Stream& stream, Stream::Work work, std::shared_ptr<Moment> after) {
  std::unique_lock lock{mutex_};
  const auto first = before(stream);
  if (&stream == default_.get() && first.empty() && stream.idle()) {
    lock.unlock();
    work();
    if (after) after->pass();
    return;
  }
  for (const auto& moment : first) stream.put([moment] { moment->wait(); });
  stream.put(std::move(work), std::move(after));
}

std::shared_ptr<Moment> Device::mark(Stream& stream) {
  auto moment = std::make_shared<Moment>();
  put(stream, [] {}, moment);
  return moment;
}

bool Device::idle(const Stream& stream) {
  const std::scoped_lock lock{mutex_};
  const auto runs = [](const auto& other) { return other->blocking() && !other->idle(); };
  return stream.idle() && (&stream != default_.get() || std::ranges::none_of(streams_, runs));
}

cudaError_t Device::synchronize() {
  std::vector<std::shared_ptr<Moment>> moments;
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& stream : streams_)
      if (auto moment = stream->mark()) moments.push_back(std::move(moment));
    if (auto moment = default_->mark()) moments.push_back(std::move(moment));
  }
  for (const auto& moment : moments) moment->wait();
  return take_failure();
}

cudaError_t Device::take_failure() {
  const std::scoped_lock lock{mutex_};
  cudaError_t first = default_->take_failure();
  for (const auto& stream : streams_) {
    const cudaError_t error = stream->take_failure();
    if (first == cudaSuccess) first = error;
  }
  return first;
}

int device_count() {
  static const int count = [] {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const int all = devices_of_the_host();
    return visible ? devices_listed(visible, all) : all;
  }();
  return count;
}

Device& device(int index) {
  if (index < 0 || index >= device_count()) throw Failure{cudaErrorInvalidDevice};
  return *devices()[static_cast<std::size_t>(index)];
}

int& current_device() {
  thread_local int index = 0;
  return index;
}

}  // namespace capstan::cudart
