// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_path.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "capstan/error.hpp"
#include "core/base/error_text.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Calls that end sooner need nobody to look whether peers live.
constexpr auto usual_call = 20ms;
constexpr auto leaving = 5s;

/// The stream continues behind the call before. Its event may have come, but is not recorded again
/// meanwhile.
void wait_for(const StreamEvent& before, void* stream) {
  at_place(before.at, "ordering streams",
           [&](DeviceDriver& driver) { return driver.wait_for_event(stream, before.handle); });
}

/// All ranks notice the loss of a peer by themselves, and then name it.
bool is_loss(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerLost&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

DevicePath::DevicePath(Communicator ranks, const Settings& settings, EngineOf engine_of)
    : ranks_(std::move(ranks)), settings_(settings), engine_of_(engine_of) {}

std::optional<DevicePath::Taken> DevicePath::take(const Request& request,
                                                  const DeviceBuffer& where) {
  if (!suits_devices(request) || (decided_ && !group_)) return std::nullopt;
  Taken taken{.checked = check(request, ranks_.rank(), ranks_.size())};
  taken.checked.call.memory = MemoryKind::device;
  if (!decided_) {
    auto group = DeviceGroup::form(ranks_, where, settings_, reason_);
    auto kernels = group ? ranks_.split(0, ranks_.rank()) : std::nullopt;
    const std::lock_guard lock{mutex_};
    decided_ = true;
    kernels_ = std::move(kernels);
    if (kernels_) log_ = &engine_of_(*kernels_).kernels();
    group_ = std::move(group);
    if (!group_) return std::nullopt;
    if (failure_) group_->abort();
    plans_ = std::make_unique<DevicePlans>(
        ranks_, *group_, selection_of(engine_of_(ranks_).machine(), settings_, group_->link()),
        settings_);
    probe_.emplace(group_->where());
  }
  require_device(where);
  if (!plans_->obstacle(taken.checked.call).empty()) return std::nullopt;
  taken.plan = &plans_->plan(taken.checked.call);
  return taken;
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

std::future<void> DevicePath::launch(const Taken& call, void* stream, Manner manner,
                                     std::shared_ptr<const StreamProfile> profile) {
  const DeviceBuffer& where = group_->where();
  if (!stream && !own_stream_) own_stream_ = take_stream(where);
  if (!stream) stream = own_stream_;
  const bool captured = manner == Manner::captured;
  const Plan& plan = call.plan->plan;
  InFlight entry{
      .call = call.checked.call, .mark = plan.mark, .lanes = call.plan->on_device->lanes};
  if (!captured) entry.profile = std::move(profile);
  if (entry.profile)
    entry.way =
        fmt::format("device executor: {} {}", plan.algorithm->name, name_of(plan.protocol));
  if (manner == Manner::watched) entry.watched.emplace();
  StreamEvent before;
  {
    const std::lock_guard lock{mutex_};
    if (failure_) std::rethrow_exception(failure_);
    captured_ = captured_ || captured;
    if (!in_flight_.empty()) before = in_flight_.back().ended;
    if (!captured) entry.number = ++number_;
  }
  // Without the lock: a driver whose queues are full waits for kernels, which watch() may have to
  // end. The graph of a captured call has no event of ours: the program orders its launches.
  try {
    if (!captured) take_events(entry);
    if (before && !captured) wait_for(before, stream);
    if (entry.begins) entry.begins.record(stream);
    plans_->launch(*call.plan->on_device, call.checked, entry.number, stream);
    if (!captured) entry.ended.record(stream);
  } catch (const Error&) {
    const std::lock_guard lock{mutex_};
    events_.give_back(entry.ended);
    events_.give_back(entry.begins);
    throw;
  }
  if (captured) {
    log_->expect_replays();
    return {};
  }
  const std::lock_guard lock{mutex_};
  looks_ = 0;
  in_flight_.push_back(std::move(entry));
  auto& watched = in_flight_.back().watched;
  return watched ? watched->get_future() : std::future<void>{};
}

void DevicePath::take_events(InFlight& entry) {
  const std::lock_guard lock{mutex_};
  entry.ended = events_.take(group_->where(), entry.profile != nullptr);
  if (entry.profile) entry.begins = events_.take(group_->where(), true);
}

std::string DevicePath::explain(const Request& request) const {
  const auto staged = [](std::string_view reason) {
    return fmt::format("pinned staging: {}", reason);
  };
  if (!suits_devices(request))
    return staged(fmt::format("no kernel runs such calls of {}", name_of(request.collective)));
  if (!group_) return decided_ ? staged(reason_) : "undecided: " + reason_;
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

bool DevicePath::busy() const {
  const std::lock_guard lock{mutex_};
  return !in_flight_.empty() || captured_ || (failure_ && !told_);
}

bool DevicePath::is_idle() const {
  const std::lock_guard lock{mutex_};
  return in_flight_.empty();
}

std::chrono::microseconds DevicePath::pause() const {
  const std::lock_guard lock{mutex_};
  constexpr int of_short_calls = 100;
  if (in_flight_.empty()) return usual_call;  // replays of graphs tell nothing of their end
  const bool awaited = std::ranges::any_of(
      in_flight_, [](const InFlight& entry) { return entry.watched.has_value(); });
  return awaited && looks_ < of_short_calls ? 50us : 1000us;
}

std::exception_ptr DevicePath::watch() {
  const std::lock_guard lock{mutex_};
  std::optional<RelaxedCapture> relaxed;
  if (group_) relaxed.emplace(*group_->where().driver);
  ++looks_;
  settle();
  if (!failure_)
    if (const auto found = trouble()) {
      failure_ = found;
      group_->abort();
    }
  told_ = failure_ != nullptr;
  return failure_;
}

/// Ends what has ended. They end in their order. The driver is asked only for handles and records
/// of kernels that have ended, and after a failure: it may be held up by a thread that waits for a
/// kernel, as it frees memory, or for a call behind one. Then that kernel's time-out ends the wait.
void DevicePath::settle() {
  while (!in_flight_.empty()) {
    InFlight& first = in_flight_.front();
    const bool over = group_->has_ended(first.number, first.lanes);
    publish(first, over);
    if (!over && !failure_) return;
    try {
      if ((first.watched || first.profile || !over) && !first.ended.has_come()) return;
    } catch (const Error&) {  // the device is lost, and the events with it
      if (!failure_) failure_ = std::current_exception();
      for (InFlight& entry : in_flight_) {
        if (entry.profile) record(entry, true);
        if (entry.watched) entry.watched->set_exception(failure_);
      }
      return in_flight_.clear();
    }
    finish(first, failure_);
    in_flight_.pop_front();
    looks_ = 0;
  }
}

/// Peers see which kernels have begun and ended, as far as the host has seen it.
void DevicePath::publish(InFlight& entry, bool over) {
  if (!entry.began && (over || group_->has_begun(entry.number))) {
    entry.began = Clock::now();
    log_->begin(entry.mark);
  }
  if (!over || std::exchange(entry.over, true)) return;
  try {
    log_->end();
  } catch (const Mismatch&) {
    if (!failure_) failure_ = std::current_exception();
    group_->abort();
  }
  if (Clock::now() - *entry.began > usual_call)  // peers see that it waits no more
    engine_of_(*kernels_).check_kernels();
}

void DevicePath::finish(InFlight& entry, const std::exception_ptr& error) {
  if (entry.profile)
    record(entry, error != nullptr);
  else
    events_.give_back(entry.ended);
  events_.give_back(entry.begins);
  if (!entry.watched) return;
  if (error)
    entry.watched->set_exception(error);
  else
    entry.watched->set_value();
}

/// Durations are the device's. The host sees an end late, by a pause of the thread that watches at
/// most, and never early. So the end is the earlier one of what the host sees and of what follows
/// from the end of the call before, which makes the error that of the luckiest look. The two clocks
/// drift apart: what follows is not used where it lies far behind.
void DevicePath::record(const InFlight& entry, bool failed) {
  constexpr auto latest_look = 10ms;
  const auto now = Clock::now();
  auto began = entry.put, ended = now;
  try {
    if (last_recorded_.event) {
      const auto follows = last_recorded_.time + elapsed(last_recorded_.event, entry.ended);
      if (now - follows < latest_look) ended = std::min(now, follows);
    }
    began = ended - elapsed(entry.begins, entry.ended);
  } catch (const Error&) {  // a lost device, or a driver without times: what the host has seen
  }
  events_.give_back(std::exchange(last_recorded_, {entry.ended, ended}).event);
  entry.profile->record({.operation = name_of(entry.call.collective),
                         .bytes = entry.call.extent(ranks_.size()),
                         .began = began,
                         .ended = ended,
                         .algorithm = entry.way,
                         .failed = failed});
}

/// The error that ends the group; null: none.
std::exception_ptr DevicePath::trouble() {
  if (in_flight_.empty() && !captured_) return nullptr;
  const auto now = Clock::now();
  if (!in_flight_.empty() && now - in_flight_.front().put > 1s) {
    try {
      probe_->look();
    } catch (const Error&) {
      return std::current_exception();
    }
  }
  check_peers(now);
  if (const auto error = kernels_->async_error()) return error;
  return ranks_.async_error();
}

/// Looks for peers that are gone or make other calls, and for waits that have lasted for too long.
void DevicePath::check_peers(Clock::time_point now) {
  const bool long_call = !in_flight_.empty() && in_flight_.front().began &&
                         now - *in_flight_.front().began > usual_call;
  if (!(long_call || captured_) || now < check_due_) return;
  check_due_ = now + usual_call;
  engine_of_(*kernels_).check_kernels();
}

void DevicePath::fail(const std::exception_ptr& error) {
  {
    const std::lock_guard lock{mutex_};
    if (!failure_) failure_ = error;
    if (group_) group_->abort();
  }
  if (!is_loss(error)) ranks_.abort(text_of(error));
}

DevicePath::~DevicePath() {
  if (!group_) return;
  const Deadline deadline = Deadline::in(leaving);
  while (watch(), !in_flight_.empty() && !deadline.expired()) std::this_thread::sleep_for(50us);
  events_.give_back(last_recorded_.event);
  const bool ended = in_flight_.empty();
  for (InFlight& entry : in_flight_)
    if (entry.watched)
      entry.watched->set_exception(std::make_exception_ptr(
          Aborted("the StreamCollectives went before " + to_string(entry.call))));
  if (ended && own_stream_) give_back_stream(group_->where(), own_stream_);
  if (!ended || failure_ || !leave()) group_->keep_for_good(!ended);
}

/// Peers may still use this rank's segment when its own kernels have ended.
bool DevicePath::leave() {
  try {
    return group_->leave(ranks_, Deadline::in(leaving));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace capstan
