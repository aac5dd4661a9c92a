// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "capstan/error.hpp"
#include "core/communicator/device_agreement.hpp"
#include "core/engine/run/device_proof.hpp"
#include "core/engine/run/engine.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

using kernels::device::ProgramArguments;

/// Blocks of a long call: as many as there are lanes, but not so short that signals outweigh data.
/// Longer blocks mean fewer waits: 1 MiB took twice as long (lab notebook, ranks-on-one-gpu).
constexpr Bytes shortest_block{16 << 10}, longest_block{4 << 20};
/// Packets need no signals: a word for each thread of a lane is enough.
constexpr Bytes shortest_of_packets{4 << 10};

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

/// The facts that ranks exchange before the first call of a kernel.
struct KernelAnswer {
  std::uint64_t digest = 0;  ///< of the call
  ShortText<120> call{};
  ShortText<200> obstacle{};
};

void compare(const std::vector<KernelAnswer>& all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].digest != all[0].digest)
      throw Mismatch(
          fmt::format("ranks make different calls on their devices: rank 0 {}, rank {} "
                      "{}: make the same calls in the same order",
                      all[0].call.view(), rank, all[rank].call.view()));
}

}  // namespace

bool suits_devices(const Request& request) {
  const Collective collective = request.collective;
  if (collective == Collective::barrier || has_counts(collective)) return false;
  if (!reduces(collective)) return true;
  return !request.reducer.user() && !request.reducer.scales() &&
         supports(request.type, request.reducer.op());
}

DevicePlans::DevicePlans(Communicator& ranks, DeviceGroup& group, SelectionContext selection,
                         const Settings& settings, Use use)
    : ranks_(ranks),
      group_(group),
      use_(std::move(use)),
      proofs_(proofs_of(settings)),
      plans_(std::move(selection), context(settings),
             {.plan_made = [this](CachedPlan& made,
                                  const Choice& choice) { make_ready(made, choice); },
              .buffers_may_have_changed = [] {},
              .plans_in_use = [] { return true; }}) {}

PlanContext DevicePlans::context(const Settings& settings) const {
  return {.self = Rank{ranks_.rank()},
          .layout = group_.segments().slots(),
          .limits_of = [ranks = ranks_.size(), lanes = group_.lanes()](
                           const Call& call,
                           Protocol protocol) { return plan_limits(call, protocol, ranks, lanes); },
          .proofs = proofs_of(settings)};
}

std::string DevicePlans::known_obstacle(const Call& call) const {
  const auto kernel = kernels_.find({call.type, call.op});
  return kernel == kernels_.end() ? "" : kernel->second.obstacle;
}

const std::string& DevicePlans::obstacle(const Call& call) {
  return kernel(call).obstacle;
}

const CachedPlan& DevicePlans::plan(const Call& call) {
  return plans_.plan(call);
}

const DevicePlans::Kernel& DevicePlans::kernel(const Call& call) {
  const KernelName name{call.type, call.op};
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
  const RelaxedCapture relaxed{*group_.where().driver};
  Kernel kernel;
  KernelAnswer own{.digest = mark_of(call, {}).digest(), .call = ShortText<120>{to_string(call)}};
  try {
    kernel.handle = group_.kernels().program_kernel(call.type, call.op);
  } catch (const std::exception& error) {
    own.obstacle = ShortText<200>{error.what()};
  }
  const std::vector<KernelAnswer> all = exchange(ranks_, own);
  compare(all);
  kernel.obstacle = first_obstacle(all);
  return kernels_.emplace(name, std::move(kernel)).first->second;
}

void DevicePlans::make_ready(CachedPlan& made, const Choice& choice) {
  const RelaxedCapture relaxed{*group_.where().driver};
  const Plan& plan = made.plan;
  if (choice.algorithm->source || proofs_.built_in) prove(plan, choice);
  const DeviceProgram program{plan, ranks_.size()};
  const auto lanes = static_cast<std::uint64_t>(group_.lanes());
  Image image;
  const std::size_t blocks = image.add(program.blocks), ops = image.add(program.ops),
                    operands = image.add(program.operands);
  auto ready = std::make_shared<DevicePlan>(group_.memory(), room_for(Bytes{image.bytes().size()}));
  ready->kernel = kernel(plan.call).handle;
  ready->lanes = static_cast<unsigned>(std::min<std::uint64_t>(lanes, program.block_count));
  std::ranges::copy(image.bytes(), ready->program.host);
  const std::byte* const base = ready->program.device;
  ProgramArguments& arguments = ready->arguments = group_.arguments();
  program.put_into(arguments);
  arguments.blocks = reinterpret_cast<const kernels::device::ProgramBlock*>(base + blocks);
  arguments.ops = reinterpret_cast<const kernels::device::ProgramOp*>(base + ops);
  arguments.operands = reinterpret_cast<const kernels::device::ProgramOperand*>(base + operands);
  constexpr std::uint64_t line = 128;
  const Bytes pointers{(sizeof(void*) * program.most_operands * lanes + line - 1) / line * line};
  std::byte* const shared = group_.memory().shared(pointers + program.scratch * lanes);
  arguments.pointers = reinterpret_cast<const void**>(shared);
  arguments.scratch = shared + pointers.value();
  made.on_device = std::move(ready);
}

/// Plans of algorithms that the program has added are proven before they run, and so are all others
/// where the settings say so: as plans, which PlanCache does, and as the programs that kernels run.
void DevicePlans::prove(const Plan& plan, const Choice& choice) const {
  const Hosts hosts{ranks_.size()};
  const PlannedCall planned{.call = plan.call,
                            .choice = choice,
                            .hosts = hosts,
                            .block = plan.block_count,
                            .layout = group_.segments().slots(),
                            .long_read = PlanLimits{}.long_read};
  proof::Budget budget = budget_of(proofs_);
  try {
    const AlgorithmProof proof = prove_on_devices(planned, group_.segments(), budget);
    if (!proof.ok()) refuse_algorithm(*choice.algorithm, hosts, proof);
  } catch (const proof::TooMuchWork&) {
    if (!proofs_.trusts_beyond_limit) refuse_long(planned, proofs_);
  }
}

ProgramMemory::Piece DevicePlans::room_for(Bytes size) {
  for (;;) {
    if (const auto piece = group_.memory().take(size)) return *piece;
    if (!forget_one()) group_.memory().grow(size);
  }
}

/// Forgets the least recently used plan whose program nothing uses any more. False: there is none.
bool DevicePlans::forget_one() {
  const Progress::Lock lock{*use_.progress};
  const std::uint64_t finished = use_.finished();
  return plans_.forget_one([&](const CachedPlan& plan) -> std::optional<std::uint64_t> {
    const DevicePlan& each = *plan.on_device;
    if (each.captured || each.last > finished) return std::nullopt;
    return each.last;
  });
}

}  // namespace capstan
