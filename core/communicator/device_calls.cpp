// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "capstan/error.hpp"
#include "core/communicator/device_agreement.hpp"
#include "core/platform/device/relaxed_capture.hpp"
#include "core/schedule/selection/candidates.hpp"

namespace capstan {
namespace {

using kernels::device::ProgramArguments;

/// Blocks of a long call: as many as there are lanes, but not so short that signals outweigh data.
/// Longer blocks mean fewer waits: 1 MiB took twice as long (lab notebook, ranks-on-one-gpu).
constexpr Bytes shortest_block{16 << 10}, longest_block{4 << 20};
/// Packets need no signals: a word for each thread of a lane is enough.
constexpr Bytes shortest_of_packets{4 << 10};

struct LinkLimits {
  /// Packets need no fence, but take twice the memory, and each rank reads those of all: they are
  /// faster while the buffers of all ranks together are no longer than this.
  Bytes packets;
  /// A step takes a lane microseconds, whatever it moves: up to this much the fewest steps are
  /// fastest.
  Bytes fewest_steps;
};
/// In the memory of one device as measured (lab notebook, ranks-on-one-gpu). Over links they are
/// estimates: NVLink moves some 300 GB/s and PCIe 30, a step takes some 5 us, and readers poll
/// packets across the link.
constexpr LinkLimits limits_over(DeviceLink link) {
  switch (link) {
    case DeviceLink::memory:
      return {.packets = Bytes{512 << 10}, .fewest_steps = Bytes{4 << 20}};
    case DeviceLink::direct:
      return {.packets = Bytes{16 << 10}, .fewest_steps = Bytes{256 << 10}};
    case DeviceLink::bus:
      break;
  }
  return {.packets = Bytes{16 << 10}, .fewest_steps = Bytes{32 << 10}};
}

PlanLimits plan_limits(const Call& call, Protocol protocol, int ranks, int lanes) {
  const Bytes of_lane{call.extent(ranks).value() / static_cast<std::uint64_t>(lanes)};
  const Bytes shortest = in_packets(protocol) ? shortest_of_packets : shortest_block;
  return {.block = std::clamp(of_lane, shortest, longest_block), .cached_buffers = longest_block};
}

/// Puts tables behind one another, each aligned for any of its elements.
class Image {
 public:
  template <class T>
  std::size_t add(const std::vector<T>& table) {
    const std::size_t at = add_zeros(table.size() * sizeof(T));
    if (!table.empty()) std::memcpy(bytes_.data() + at, table.data(), table.size() * sizeof(T));
    return at;
  }
  std::size_t add_zeros(std::size_t size) {
    constexpr std::size_t alignment = 16;
    const std::size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + size);
    return at;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// The facts that ranks exchange before the first call of a kind.
struct KindAnswer {
  std::uint64_t digest = 0;  ///< of the call and how it runs
  ShortText<120> call{};
  ShortText<200> obstacle{};
};

void compare(const std::vector<KindAnswer>& all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].digest != all[0].digest)
      throw Mismatch(
          fmt::format("ranks make different calls on their devices: rank 0 {}, rank {} "
                      "{}: make the same calls in the same order",
                      all[0].call.view(), rank, all[rank].call.view()));
}

void keep_fewest_steps(std::vector<Candidate>& candidates, const Hosts& hosts, const Shape& shape) {
  const auto steps = [&](const Candidate& each) {
    return cost_of(*each.algorithm, hosts, shape, 1 << 8).steps;
  };
  const auto fewest = std::ranges::min_element(candidates, {}, steps);
  if (fewest == candidates.end()) return;
  const double least = steps(*fewest);
  std::erase_if(candidates, [&](const Candidate& each) { return steps(each) > least; });
}

Protocol protocol_for(const Algorithm& algorithm, const Call& call, const Hosts& hosts,
                      Bytes worth_packets) {
  const int ranks = hosts.ranks();
  if (ranks == 1 || call.extent(ranks) * static_cast<std::uint64_t>(ranks) > worth_packets)
    return Protocol::staged;
  // Several readers share packets, which are then written once.
  const auto packets = ranks > 2 ? Protocol::shared_inline_packets : Protocol::inline_packets;
  return fits_packets(algorithm, packets, hosts, call, device_slots) ? packets : Protocol::staged;
}

}  // namespace

bool suits_devices(const Request& request) {
  const Collective collective = request.collective;
  if (collective == Collective::barrier || has_counts(collective)) return false;
  if (!reduces(collective)) return true;
  return !request.reducer.user() && !request.reducer.scales() &&
         supports(request.type, request.reducer.op());
}

Choice choice_on_devices(const Call& call, int ranks, DeviceLink link) {
  const LinkModel model;  // in which no rank reads buffers of others
  const Hosts hosts{ranks};
  std::vector<Candidate> candidates = candidates_for(call, hosts, true, model);
  std::erase_if(candidates, [](const Candidate& each) { return in_packets(each.protocol); });
  const LinkLimits limits = limits_over(link);
  if (call.extent(ranks) <= limits.fewest_steps) keep_fewest_steps(candidates, hosts, call.shape);
  const Candidate best = best_of(candidates);
  if (!best.algorithm)
    throw InvalidArgument(fmt::format("no algorithm runs {} on devices", to_string(call)));
  return {.algorithm = best.algorithm,
          .protocol = protocol_for(*best.algorithm, call, hosts, limits.packets)};
}

const DeviceCallKind& DeviceCalls::kind(const Call& call) {
  if (const DeviceCallKind* const known = find(call)) return *known;
  return kinds_.emplace(call, make(call)).first->second;
}

DeviceCallKind DeviceCalls::make(const Call& call) {
  const RelaxedCapture relaxed{*group_.where().driver};
  DeviceCallKind kind;
  KindAnswer own{.digest = mark_of(call, {}).digest(), .call = ShortText<120>{to_string(call)}};
  try {
    const int ranks = ranks_.size();
    kind.choice = choice_on_devices(call, ranks, group_.link());
    const Plan plan = make_plan(call, kind.choice, Hosts{ranks}, Rank{ranks_.rank()},
                                plan_limits(call, kind.choice.protocol, ranks, group_.lanes()),
                                group_.segments().slots());
    own.digest = plan.digest;
    prepare(kind, plan);
  } catch (const std::exception& error) {
    own.obstacle = ShortText<200>{error.what()};
  }
  const std::vector<KindAnswer> all = exchange(ranks_, own);
  kind.obstacle = first_obstacle(all);
  if (kind.obstacle.empty()) compare(all);
  return kind;
}

void DeviceCalls::prepare(DeviceCallKind& kind, const Plan& plan) {
  const DeviceProgram program{plan, ranks_.size()};
  const auto lanes = static_cast<std::uint64_t>(group_.lanes());
  Image image;
  const std::size_t blocks = image.add(program.blocks), ops = image.add(program.ops),
                    operands = image.add(program.operands),
                    pointers = image.add_zeros(sizeof(void*) * program.most_operands * lanes);
  kind.program = group_.blocks().image(image.bytes());
  const std::byte* const base = kind.program.data();
  ProgramArguments& arguments = kind.arguments = group_.arguments();
  arguments.packets = program.packets ? 1 : 0;
  arguments.block_count = program.blocks.size();
  arguments.blocks = reinterpret_cast<const kernels::device::ProgramBlock*>(base + blocks);
  arguments.ops = reinterpret_cast<const kernels::device::ProgramOp*>(base + ops);
  arguments.operands = reinterpret_cast<const kernels::device::ProgramOperand*>(base + operands);
  arguments.pointers = reinterpret_cast<const void**>(kind.program.data() + pointers);
  arguments.most_operands = program.most_operands;
  arguments.scratch = scratch(program.scratch * lanes);
  arguments.scratch_bytes = program.scratch.value();
  kind.lanes = static_cast<unsigned>(std::min<std::uint64_t>(lanes, program.blocks.size()));
  kind.kernel = group_.kernels().program_kernel(plan.call.type, plan.call.op);
}

/// Sizes are rounded up, so that blocks serve many kinds.
std::byte* DeviceCalls::scratch(Bytes size) {
  if (size == Bytes{0}) return nullptr;
  for (const DeviceBlock& block : scratch_)
    if (block.size() >= size) return block.data();
  scratch_.emplace_back(group_.where(), Bytes{std::bit_ceil(size.value())});
  return scratch_.back().data();
}

void DeviceCalls::launch(const DeviceCallKind& kind, const CheckedCall& call, std::uint64_t number,
                         void* stream) {
  ProgramArguments arguments = kind.arguments;
  arguments.input = static_cast<std::byte*>(const_cast<void*>(call.input));
  arguments.output = static_cast<std::byte*>(call.output);
  arguments.number = number;
  if (number == 0) arguments.progress = nullptr;
  group_.kernels().run(kind.kernel, arguments, kind.lanes, stream);
}

void DeviceCalls::keep_for_good() {
  for (auto& [call, kind] : kinds_) kind.program.keep_for_good();
  for (DeviceBlock& block : scratch_) block.keep_for_good();
}

}  // namespace capstan
