// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_path.hpp"

#include <fmt/format.h>

#include <utility>

#include "capstan/error.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

constexpr std::chrono::seconds leaving{5};

}  // namespace

DevicePath::DevicePath(Communicator ranks, const Settings& settings, EngineOf engine_of)
    : ranks_(std::move(ranks)), settings_(settings), engine_of_(engine_of) {}

std::optional<DevicePath::Taken> DevicePath::take(const Request& request,
                                                  const DeviceBuffer& where) {
  if (!suits_devices(request) || (decided_ && !plans_)) return std::nullopt;
  Taken taken{.checked = check(request, ranks_.rank(), ranks_.size())};
  taken.checked.call.memory = MemoryKind::device;
  if (!decided_ && !form_group(where)) return std::nullopt;
  require_device(where);
  if (!plans_->obstacle(taken.checked.call).empty()) return std::nullopt;
  taken.plan = &plans_->plan(taken.checked.call);
  return taken;
}

/// All ranks decide alike.
bool DevicePath::form_group(const DeviceBuffer& where) {
  group_ = DeviceGroup::form(ranks_, where, settings_, reason_);
  decided_ = true;
  if (!group_) return false;
  kernels_ = ranks_.split(0, ranks_.rank());
  engine_ = &engine_of_(*kernels_);
  auto executor = std::make_unique<DeviceExecutor>(engine_->peers(), group_->words(),
                                                   group_->kernels(), group_->where());
  executor_ = executor.get();
  engine_->run_by(std::move(executor));
  engine_->share_failures(engine_of_(ranks_));
  engine_->progress()->ensure_progress();
  plans_ = std::make_unique<DevicePlans>(
      ranks_, *group_, selection_of(engine_of_(ranks_).machine(), settings_, group_->link()),
      settings_, DevicePlans::Use{engine_->progress(), [this] { return executor_->finished(); }});
  return true;
}

void DevicePath::require_device(const DeviceBuffer& where) const {
  const DeviceBuffer& own = group_->where();
  const bool same = where.driver == own.driver && where.place.device == own.place.device &&
                    (!where.place.context || where.place.context == own.place.context);
  if (!same)
    throw InvalidArgument(fmt::format(
        "the calls of this group run in kernels on device {}, that of its first call, and these "
        "buffers are on device {} or in another context: make a StreamCollectives for each",
        own.place.device, where.place.device));
}

void* DevicePath::stream_for(void* stream) {
  if (stream) return stream;
  if (!own_stream_) own_stream_ = take_stream(group_->where());
  return own_stream_;
}

/// The engine's lock is not held while the kernel is put into its stream: a driver whose queues are
/// full waits for kernels, which a check may have to end.
Work DevicePath::launch(const Taken& call, void* stream, Manner manner,
                        std::shared_ptr<const StreamProfile> profile, std::string name) {
  const auto& [request, input, output, input_bytes, output_bytes] = call.checked;
  const bool captured = manner == Manner::captured, recorded = profile && !captured;
  auto events =
      executor_->launch(*call.plan->on_device, input, output,
                        {.stream = stream_for(stream), .captured = captured, .timed = recorded});
  if (captured) {
    executor_->expect_replays(true);
    engine_->progress()->there_is_work();
    return {};
  }
  Task task{.call = request,
            .plan = call.plan,
            .input = input,
            .output = output,
            .input_bytes = input_bytes,
            .output_bytes = output_bytes};
  std::shared_ptr<KernelEnd> end;
  if (recorded || manner == Manner::watched) {
    end = std::make_shared<KernelEnd>(events.ended, given_up_);
    task.outcome = &end->outcome();
    task.keep.push_back(end);
  }
  engine_->put(std::move(task));
  if (recorded) record(call, end, std::move(events.begins), std::move(profile));
  if (manner != Manner::watched) return {};
  return work_of(std::move(end), engine_->progress(), std::move(name));
}

void DevicePath::record(const Taken& call, const std::shared_ptr<const KernelEnd>& end,
                        SharedEvent begins, std::shared_ptr<const StreamProfile> profile) {
  const Plan& plan = call.plan->plan;
  records_->add(
      {.end = end,
       .begins = std::move(begins),
       .operation = name_of(plan.call.collective),
       .bytes = call.plan->extent,
       .way = fmt::format("device executor: {} {}", plan.algorithm->name, name_of(plan.protocol)),
       .profile = std::move(profile)});
}

std::string DevicePath::explain(const Request& request) const {
  const auto staged = [](std::string_view reason) {
    return fmt::format("pinned staging: {}", reason);
  };
  if (!suits_devices(request))
    return staged(fmt::format("no kernel runs such calls of {}", name_of(request.collective)));
  if (!plans_) return decided_ ? staged(reason_) : "undecided: " + reason_;
  Call call = check(request, ranks_.rank(), ranks_.size()).call;
  call.memory = MemoryKind::device;
  if (const auto obstacle = plans_->known_obstacle(call); !obstacle.empty())
    return staged(obstacle);
  const Choice choice = plans_->choice(call);
  const std::string over =
      group_->link() == DeviceLink::memory ? "" : fmt::format(" over {}", name_of(group_->link()));
  return fmt::format("device executor, {} {}{}: {} {}{}{}", group_->lanes(),
                     group_->lanes() == 1 ? "lane" : "lanes", over, choice.algorithm->name,
                     choice.manner(), choice.reason.empty() ? "" : ", ", choice.reason);
}

/// The engine may not have seen yet that they have, and has their plans.
void DevicePath::use_rules(AlgorithmRules rules) {
  engine_->progress()->drive([&] { return engine_->is_idle(); }, Deadline::never());
  plans_->use_rules(std::move(rules));
}

bool DevicePath::is_idle() const {
  return !engine_ || (engine_->is_idle() && records_->empty());
}

/// Kernels may still run when their calls have failed, and those of peers use this rank's segment
/// until all ranks leave.
DevicePath::~DevicePath() {
  if (!group_) return;
  const RelaxedCapture relaxed{*group_->where().driver};
  const Deadline deadline = Deadline::in(leaving);
  if (engine_ && executor_) {
    try {
      engine_->progress()->drive([&] { return is_idle(); }, deadline);
    } catch (const Error&) {  // the process exits
    }
  }
  const bool ended = !executor_ || executor_->have_all_ended(deadline);
  if (executor_) executor_->expect_replays(false);
  *given_up_ = true;
  records_->clear();
  if (ended && own_stream_) give_back_stream(group_->where(), own_stream_);
  const bool left = ended && leave();
  if (executor_) engine_->run_by(nullptr);
  plans_.reset();
  kernels_.reset();
  if (!left) group_->keep_for_good(!ended);
}

bool DevicePath::leave() {
  try {
    return group_->leave(ranks_, Deadline::in(leaving));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace capstan
