// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>

#include "core/platform/device/gpu_page_locker.hpp"
#include "core/platform/memory/registration/mapping_monitor.hpp"
#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

Probe memory() {
  const std::string total = first_line("/proc/meminfo");
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  return {"memory", Probe::Status::ok,
          fmt::format("{}{}", total,
                      limit.empty() || limit == "max" ? "" : ", limited by a cgroup to " + limit)};
}

Probe huge_pages() {
  const std::string mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (mode.find("[never]") == std::string::npos && !mode.empty())
    return {"huge pages", Probe::Status::ok, mode};
  return {"huge pages", Probe::Status::note, mode.empty() ? "unknown" : mode,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large buffers gain 20 %"};
}

/// Tries to lock a page.
Probe pinned_memory() {
  const LockedMemory locked = locked_memory();
  const auto locker = make_page_locker();
  locker->deallocate(locker->allocate(Bytes{page_size()}));
  if (locked.unlimited)
    return {"pinned memory", Probe::Status::ok, fmt::format("unlimited, by {}", locker->name())};
  return {"pinned memory", Probe::Status::note,
          fmt::format("{}, by {}", readable(locked.limit), locker->name()),
          fmt::format("shared memory does not need it; RDMA would: {}", memlock_remedy)};
}

Probe registrations() {
  const auto monitor = MappingMonitor::shared();
  if (monitor->active())
    return {"registrations", Probe::Status::ok, "cached: " + monitor->description()};
  return {"registrations", Probe::Status::note, "made for each operation, which is slow",
          monitor->description()};
}

}  // namespace

Probes memory_probes() {
  return {memory, huge_pages, pinned_memory, registrations};
}

}  // namespace capstan::cli
