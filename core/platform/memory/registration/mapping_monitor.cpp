// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/mapping_monitor.hpp"

#include <mutex>
#include <utility>

#include "core/platform/memory/registration/userfault_monitor.hpp"

namespace capstan {
namespace {

class NoMonitor : public MappingMonitor {
 public:
  explicit NoMonitor(std::string reason) : description_(std::move(reason)) {}

  bool active() const override { return false; }
  const std::string& description() const override { return description_; }
  bool watch(AddressRange) override { return false; }
  void unwatch(AddressRange) override {}
  std::uint64_t log_end() const override { return 0; }
  bool read_log(std::uint64_t&, const std::function<void(AddressRange)>&) override { return true; }

 private:
  std::string description_;
};

}  // namespace

std::shared_ptr<MappingMonitor> MappingMonitor::none(std::string reason) {
  return std::make_shared<NoMonitor>(std::move(reason));
}

std::shared_ptr<MappingMonitor> MappingMonitor::open() {
  try {
    return std::make_shared<UserfaultMonitor>();
  } catch (const Error& error) {
    return none(error.what());
  }
}

std::shared_ptr<MappingMonitor> MappingMonitor::shared() {
  static std::mutex mutex;
  static auto& current = *new std::weak_ptr<MappingMonitor>;
  const std::lock_guard lock{mutex};
  auto monitor = current.lock();
  if (!monitor) current = monitor = open();
  return monitor;
}

}  // namespace capstan
