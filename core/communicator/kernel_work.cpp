// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/kernel_work.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "capstan/async/foreign.hpp"
#include "capstan/error.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

class KernelOperation final : public ForeignOperation {
 public:
  KernelOperation(std::shared_ptr<const KernelEnd> end, std::shared_ptr<Progress> progress,
                  std::string name)
      : end_(std::move(end)), progress_(std::move(progress)), name_(std::move(name)) {}

  std::string describe() const override { return name_; }
  bool advance() override {
    if (!end_->has_kernel_ended()) return false;
    try {
      if (!end_->has_passed()) return false;
    } catch (const Error&) {
      if (!end_->error()) throw;
    }
    if (end_->error()) std::rethrow_exception(end_->error());
    return true;
  }
  void sleep(std::chrono::nanoseconds at_most) override {
    if (!end_->has_kernel_ended()) progress_->advance();
    const bool ended = end_->has_kernel_ended();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(at_most, ended ? 5us : 50us));
  }

 private:
  const std::shared_ptr<const KernelEnd> end_;
  const std::shared_ptr<Progress> progress_;
  const std::string name_;
};

}  // namespace

bool KernelEnd::has_passed() const {
  if (!has_kernel_ended()) return false;
  if (*given_up_) return true;
  const RelaxedCapture relaxed{*event_->at.driver};
  return event_->has_come();
}

Work work_of(std::shared_ptr<const KernelEnd> end, std::shared_ptr<Progress> progress,
             std::string name) {
  return work_from(std::unique_ptr<ForeignOperation>(
      std::make_unique<KernelOperation>(std::move(end), std::move(progress), std::move(name))));
}

}  // namespace capstan
