// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_group.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/communicator/device_agreement.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

/// A region of a slot. Longer ones cost memory (a lane has six, of 6 MiB together); shorter ones
/// make more blocks of a long call, each with a signal for its readers.
constexpr Bytes staging_region{1 << 20};

/// Runs a part of the agreement. What it throws is told to the other ranks.
template <class Body>
std::string obstacle_of(const Body& body) {
  try {
    body();
    return "";
  } catch (const std::exception& error) {
    return *error.what() ? error.what() : "an error";
  }
}

struct Answer {
  ShortText<200> obstacle{};
  DeviceLink farthest = DeviceLink::memory;
};

/// Throws SystemError unless the device reaches memory of the other one.
void require_access(DeviceDriver& driver, int device, int peer) {
  bool can = false;
  if (driver.can_access_peer(device, peer, can) != 0 || !can)
    throw SystemError(
        fmt::format("device {} does not reach the memory of device {}", device, peer));
}

}  // namespace

/// A rank's segment, and how others find it.
struct DeviceGroup::Segment {
  std::uint64_t address = 0;    ///< in its process
  DeviceMemoryHandle handle{};  ///< where some ranks are in other processes
  ShortText<200> obstacle{};
};

std::unique_ptr<DeviceGroup> DeviceGroup::form(Communicator& ranks, const DeviceBuffer& where,
                                               const Settings& settings, std::string& reason) {
  const RelaxedCapture relaxed{*where.driver};
  std::unique_ptr<DeviceGroup> group{new DeviceGroup{ranks.rank()}};
  const std::string obstacle = obstacle_of([&] {
    if (!settings.device_executor) throw InvalidArgument("CAPSTAN_DEVICE_EXECUTOR is 0");
    if (settings.virtual_hosts > 1)
      throw InvalidArgument("CAPSTAN_VIRTUAL_HOSTS pretends several hosts");
    group->blocks_ = std::make_unique<DeviceBlocks>(where, settings.timeout);
  });
  const auto facts = exchange(ranks, facts_of(group->blocks_.get(), obstacle));
  reason = obstacle_among(facts);
  if (reason.empty()) reason = group->reach_segments(ranks, facts);
  return reason.empty() ? std::move(group) : nullptr;
}

/// Empty, or the reason why not all segments can be reached from all ranks.
std::string DeviceGroup::reach_segments(Communicator& ranks,
                                        const std::vector<DeviceFacts>& facts) {
  Segment own;
  const std::string lacks = obstacle_of([&] { own = set_up(facts); });
  own.obstacle = ShortText<200>{lacks};
  const std::vector<Segment> segments = exchange(ranks, own);
  if (auto reason = first_obstacle(segments); !reason.empty()) return reason;

  const std::string out_of_reach = obstacle_of([&] { map(facts, segments); });
  const std::vector<Answer> answers =
      exchange(ranks, Answer{ShortText<200>{out_of_reach}, farthest_of(facts)});
  link_ = std::ranges::max(answers, {}, &Answer::farthest).farthest;
  auto reason = first_obstacle(answers);
  if (reason.empty()) return "";
  close_mapped();  // before any rank releases what is mapped
  exchange(ranks, Answer{});
  return reason;
}

DeviceGroup::Segment DeviceGroup::set_up(const std::vector<DeviceFacts>& facts) {
  const DeviceFacts& self = facts[static_cast<std::size_t>(rank_)];
  const int lanes = lanes_for(facts);
  kernels_ = &DeviceKernels::at(where());
  lanes_ = LaneReservation::of(where(), lanes, self.multiprocessors);
  if (!lanes_) throw LimitReached("another group has just taken the device's multiprocessors");
  segments_.emplace(static_cast<int>(facts.size()), lanes, staging_region);
  segment_ = blocks_->segment(segments_->total(), segments_->of_lane(), segments_->zeros_of_lane());
  states_ =
      blocks_->zeros(Bytes{sizeof(kernels::device::LaneState) * static_cast<std::uint64_t>(lanes)});
  memory_ = std::make_unique<ProgramMemory>(*blocks_);
  words_.emplace(blocks_->pinned(), lanes);
  Segment own{.address = reinterpret_cast<std::uintptr_t>(segment_.data())};
  const auto elsewhere = [&](const DeviceFacts& peer) { return peer.process != self.process; };
  if (std::ranges::any_of(facts, elsewhere))
    at_place(where(), "making a handle of memory", [&](DeviceDriver& driver) {
      return driver.export_memory(segment_.data(), own.handle);
    });
  return own;
}

DeviceLink DeviceGroup::farthest_of(const std::vector<DeviceFacts>& facts) const {
  DeviceLink farthest = DeviceLink::memory;
  for (const DeviceFacts& peer : facts)
    farthest =
        std::max(farthest, link_to(*where().driver, where().place.device, peer.address.view()));
  return farthest;
}

/// Collects the addresses at which this rank's device reaches all segments.
void DeviceGroup::map(const std::vector<DeviceFacts>& facts, const std::vector<Segment>& segments) {
  const DeviceFacts& own = facts[static_cast<std::size_t>(rank_)];
  std::vector<std::uint64_t> addresses;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    const DeviceFacts& peer = facts[rank];
    void* address = reinterpret_cast<void*>(segments[rank].address);
    const bool apart = peer.process != own.process, beside = !apart && peer.device != own.device;
    if (beside) require_access(*where().driver, own.device, peer.device);
    at_place(where(), "reaching a segment", [&](DeviceDriver& driver) {
      if (apart) return driver.open_memory(segments[rank].handle, address);
      if (!beside) return 0;
      return driver.enable_peer({reinterpret_cast<void*>(peer.context), peer.device});
    });
    if (apart) mapped_.push_back(address);
    addresses.push_back(reinterpret_cast<std::uintptr_t>(address));
  }
  addresses_ = blocks_->image(std::as_bytes(std::span{addresses}));
}

void DeviceGroup::close_mapped() {
  for (void* const memory : mapped_)
    obstacle_of([&] {
      at_place(where(), "unmapping a segment",
               [&](DeviceDriver& driver) { return driver.close_memory(memory); });
    });
  mapped_.clear();
}

DeviceGroup::~DeviceGroup() {
  close_mapped();
}

kernels::device::ProgramArguments DeviceGroup::arguments() const {
  kernels::device::ProgramArguments arguments{};
  arguments.shape = segments_->shape();
  arguments.self = static_cast<std::uint32_t>(rank_);
  arguments.segments = reinterpret_cast<std::byte* const*>(addresses_.data());
  arguments.lanes = reinterpret_cast<kernels::device::LaneState*>(states_.data());
  words_->put_into(arguments);
  return arguments;
}

bool DeviceGroup::leave(Communicator& ranks, Deadline deadline) {
  if (!ranks.start_barrier().wait_until(deadline)) return false;
  if (mapped_.empty()) return true;
  close_mapped();
  return ranks.start_barrier().wait_until(deadline);
}

void DeviceGroup::keep_for_good(bool own_kernels_run) {
  if (own_kernels_run) lanes_->keep_for_good();
  for (DeviceBlock* block : {&segment_, &states_, &addresses_}) block->keep_for_good();
  if (own_kernels_run) memory_->keep_for_good();
  words_->keep_for_good();
  mapped_.clear();
}

}  // namespace capstan
