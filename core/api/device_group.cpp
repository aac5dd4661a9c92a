#include "core/api/device_group.hpp"

#include <fmt/format.h>

#include <atomic>

#include "capstan/error.hpp"
#include "core/api/device_agreement.hpp"
#include "core/device/at_place.hpp"
#include "core/device/relaxed_capture.hpp"

namespace capstan {
namespace {

/// A region of a slot. Longer ones cost memory (a lane has six, of 1.5 MiB together); shorter ones
/// make more blocks of a long call, each with a signal for its readers.
constexpr Bytes staging_region{256 << 10};

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
struct DeviceGroup::Own {
  std::uint64_t process = 0, context = 0;
  std::int32_t device = 0;
  std::uint64_t address = 0;
  DeviceMemoryHandle handle{};
  ShortText<200> obstacle{};
};

std::unique_ptr<DeviceGroup> DeviceGroup::form(Communicator& ranks, const DeviceBuffer& where,
                                               const Settings& settings, std::string& reason) {
  const RelaxedCapture relaxed{*where.driver};
  std::unique_ptr<DeviceGroup> group{new DeviceGroup{ranks.rank()}};
  std::string trouble = obstacle_of([&] {
    if (!settings.device_executor) throw InvalidArgument("CAPSTAN_DEVICE_EXECUTOR is 0");
    if (settings.virtual_hosts > 1) throw InvalidArgument("CAPSTAN_VIRTUAL_HOSTS pretends hosts");
    group->blocks_ = std::make_unique<DeviceBlocks>(where, settings.timeout);
  });
  const DeviceFacts own = facts_of(group->blocks_.get(), trouble);
  const std::vector<DeviceFacts> facts = exchange(ranks, own);
  if (reason = obstacle_among(facts); !reason.empty()) return nullptr;

  Own segment{.process = own.process, .context = own.context, .device = own.device};
  trouble = obstacle_of([&] {
    group->set_up(ranks.size(), lanes_for(facts), group->where());
    segment.address = reinterpret_cast<std::uintptr_t>(group->segment_.data());
    for (const DeviceFacts& peer : facts)
      if (peer.process != own.process)
        return at_place(group->where(), "making a handle of memory", [&](DeviceDriver& driver) {
          return driver.export_memory(group->segment_.data(), segment.handle);
        });
  });
  segment.obstacle = ShortText<200>{trouble};
  const std::vector<Own> all = exchange(ranks, segment);
  if (reason = first_obstacle(all); !reason.empty()) return nullptr;

  trouble = obstacle_of([&] { group->map(all); });
  reason = first_obstacle(exchange(ranks, Answer{ShortText<200>{trouble}}));
  if (reason.empty()) return group;
  group->close_mapped();  // before any rank releases what is mapped
  exchange(ranks, Answer{});
  return nullptr;
}

void DeviceGroup::set_up(int ranks, int lanes, const DeviceBuffer& where) {
  kernels_ = &DeviceKernels::at(where);
  lanes_ = LaneReservation::of(where, lanes, kernels_->multiprocessors());
  if (!lanes_) throw LimitReached("another group has just taken the device's multiprocessors");
  segments_.emplace(ranks, lanes, staging_region);
  segment_ = blocks_->zeros(segments_->total());
  states_ =
      blocks_->zeros(Bytes{sizeof(kernels::device::LaneState) * static_cast<std::uint64_t>(lanes)});
  abort_ = blocks_->pinned().allocate(Bytes{64});
  std::ranges::fill(abort_.bytes(), std::byte{0});
}

/// Collects the addresses at which this rank's device reaches all segments.
void DeviceGroup::map(const std::vector<Own>& all) {
  const Own& own = all[static_cast<std::size_t>(rank_)];
  std::vector<std::uint64_t> addresses;
  for (const Own& peer : all) {
    void* address = reinterpret_cast<void*>(peer.address);
    const bool apart = peer.process != own.process;
    if (!apart && peer.device != own.device)
      require_access(*where().driver, own.device, peer.device);
    at_place(where(), "reaching a segment", [&](DeviceDriver& driver) {
      if (apart) return driver.open_memory(peer.handle, address);
      if (peer.device == own.device) return 0;
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
  arguments.abort = reinterpret_cast<const std::uint64_t*>(abort_.data());
  return arguments;
}

void DeviceGroup::abort() {
  std::atomic_ref{*reinterpret_cast<std::uint64_t*>(abort_.data())}.store(
      1, std::memory_order_release);
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
  static_cast<void>(new PinnedMemory::Handle{std::move(abort_)});
  mapped_.clear();
}

}  // namespace capstan
