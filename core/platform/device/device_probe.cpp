// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_probe.hpp"

#include <atomic>
#include <system_error>
#include <thread>

#include "core/platform/device/at_place.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {

/// The state that the thread which asks and the thread which queries the driver share.
struct DeviceProbe::Question {
  std::atomic<bool> open = false;
  std::atomic<int> error = 0;
};

namespace {

int answer(const DeviceBuffer& where, void* stream) {
  const RelaxedCapture relaxed{*where.driver};
  int former = 0;
  if (const int error = where.driver->enter(where.place, former)) return error;
  const int state = where.driver->query(stream);
  where.driver->leave(former);
  return state;
}

}  // namespace

DeviceProbe::DeviceProbe(const DeviceBuffer& where)
    : where_(where),
      stream_(take_stream(where)),
      question_(std::make_shared<Question>()),
      asked_(std::chrono::steady_clock::now()) {}

DeviceProbe::~DeviceProbe() {
  if (!question_->open) give_back_stream(where_, stream_);
}

void DeviceProbe::look() {
  if (const int error = question_->error)
    throw SystemError(fmt::format("{} does not answer for device {}: {}", where_.driver->name(),
                                  where_.place.device, where_.driver->text_of(error)));
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < std::chrono::seconds{1} || question_->open.exchange(true)) return;
  asked_ = now;
  try {
    std::thread{[question = question_, where = where_, stream = stream_] {
      const int state = answer(where, stream);
      if (state != 0 && state != DeviceDriver::not_ready) question->error = state;
      question->open = false;
    }}.detach();
  } catch (const std::system_error&) {  // no thread now: another time
    question_->open = false;
  }
}

}  // namespace capstan
