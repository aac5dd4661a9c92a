// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/async/foreign.hpp"
#include "capstan/async/streams.hpp"
#include "capstan/error.hpp"
#include "core/base/error_text.hpp"
#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/device_path.hpp"
#include "core/communicator/host_calls.hpp"
#include "core/communicator/stream_buffers.hpp"
#include "core/communicator/stream_profile.hpp"
#include "core/communicator/stream_tuning.hpp"

namespace capstan {
namespace {

/// A call by the host that waits for its turn.
struct QueuedCall {
  HostCall call;
  std::shared_ptr<const StreamProfile> profile{};  ///< null: nobody records it
  std::promise<void> ended{};
};

/// The record of a call: its name, and its bytes.
Measurement record_of(const Request& request, int rank, int ranks) {
  return {.operation = name_of(request.collective),
          .bytes = check(request, rank, ranks).call.extent(ranks)};
}
Measurement record_of(const std::vector<Message>& messages, int /*rank*/, int /*ranks*/) {
  Measurement record{.operation = "exchange"};
  for (const Message& message : messages)
    record.bytes = record.bytes + bytes_of(message.count, size_of(message.type));
  return record;
}

Communicator group_of(Communicator& world) {
  return std::move(*world.split(0, world.rank()));
}

}  // namespace

/// The group of the calls, and the thread that makes those of the host. The thread also monitors
/// the kernels.
class StreamCollectives::Impl {
  /// Runs what ranks do together. Any error but InvalidArgument ends the group on all ranks, as the
  /// others would wait for this one.
  template <class Body>
  auto agreed(const Body& body) {
    try {
      return body();
    } catch (const InvalidArgument&) {
      throw;
    } catch (const std::exception&) {
      fail(std::current_exception());
      throw;
    }
  }

 public:
  Impl(Communicator& world, const Settings& settings)
      : group_(group_of(world)),
        device_(group_of(world), settings, &engine_of),
        host_(group_, settings.pinned_memory,
              {.meanwhile = [this] { poll_while_waiting(); },
               .may_stay_on_device =
                   [this](const Message& message) { return group_.may_stay_on_device(message); },
               .start_exchange =
                   [this](const std::vector<Message>& messages, const StagedCount& staged) {
                     return group_.start_exchange(messages, staged);
                   }}),
        thread_([this] { work(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Puts a call between what is in the stream and what comes later. Whether the stream waits for
  /// its end is in `second`: if not, the caller has to.
  std::pair<std::future<void>, bool> put(const Request& request, void* stream, bool handle) {
    const std::lock_guard one_by_one{calling_};
    const std::string_view name = name_of(request.collective);
    const auto where = device_of(name, buffers_of(request, group_.rank()), stream);
    require_no_failure();
    if (!where) return put(HostCall{.call = request}, stream, handle);
    if (const auto taken = agreed([&] { return device_.take(request, *where); }))
      return launch(*taken, *where, stream, handle);
    refuse_captured(name, *where, stream);
    return agreed([&] { return put(HostCall{.call = request, .where = where}, stream, handle); });
  }
  std::pair<std::future<void>, bool> put(const std::vector<Message>& messages, void* stream,
                                         bool handle) {
    const std::lock_guard one_by_one{calling_};
    const auto where = device_of("exchange", buffers_of(messages), stream);
    if (where) refuse_captured("exchange", *where, stream);
    return agreed([&] { return put(HostCall{.call = messages, .where = where}, stream, handle); });
  }

  std::string explain(const Request& request) {
    const std::lock_guard one_by_one{calling_};
    return device_.explain(request);
  }
  void fail(const std::exception_ptr& error) {
    {
      const std::lock_guard lock{mutex_};
      if (failure_) return;
      failure_ = error;
    }
    group_.abort(text_of(error));
    device_.fail(error);
    changed_.notify_all();
  }
  std::exception_ptr failure() {
    {
      const std::lock_guard lock{mutex_};
      if (failure_) return failure_;
    }
    return group_.async_error();
  }

  bool is_idle() {
    const std::lock_guard one_by_one{calling_};
    return has_run_all() && host_.all_passed() && device_.is_idle();
  }

  const Communicator& group() const { return group_; }
  Engine& engine() const { return engine_of(group_); }
  std::optional<DeviceLink> link() {
    const std::lock_guard one_by_one{calling_};
    return device_.link();
  }
  void use_rules(AlgorithmRules rules) {
    const std::lock_guard one_by_one{calling_};
    device_.use_rules(std::move(rules));
  }

  void attach(std::shared_ptr<const StreamProfile> profile) {
    const std::lock_guard one_by_one{calling_};
    profile_ = std::move(profile);
  }

 private:
  static Engine& engine_of(const Communicator& of) { return Communicator::Impl::of(of).engine; }

  void require_no_failure() {
    const std::lock_guard lock{mutex_};
    if (failure_) std::rethrow_exception(failure_);
  }

  std::pair<std::future<void>, bool> launch(const DevicePath::Taken& call,
                                            const DeviceBuffer& where, void* stream, bool handle) {
    const bool capturing = is_captured(where, stream);
    if (capturing && handle)
      throw InvalidArgument(fmt::format(
          "{}: a call that is captured into a graph has no handle: make the blocking call, which "
          "returns at once",
          name_of(call.checked.call.collective)));
    using Manner = DevicePath::Manner;
    const Manner manner = capturing           ? Manner::captured
                          : handle || !stream ? Manner::watched
                                              : Manner::unwatched;
    auto ended = agreed([&] { return device_.launch(call, stream, manner, profile_); });
    if (asleep_ || manner == Manner::watched) {
      {
        const std::lock_guard lock{mutex_};  // the thread does not miss it
      }
      changed_.notify_all();
    }
    return {std::move(ended), stream != nullptr};
  }

  /// Without the lock: a thread that puts a call may wait in the driver for calls before it.
  std::pair<std::future<void>, bool> put(HostCall call, void* stream, bool handle) {
    require_no_failure();
    if (call.where && stream) host_.enter(call, stream, handle);
    const bool waits = call.holds_stream();
    if (profile_) call.staged_messages = std::make_shared<std::atomic<std::size_t>>(0);
    QueuedCall queued{.call = std::move(call), .profile = profile_};
    auto ended = queued.ended.get_future();
    {
      const std::lock_guard lock{mutex_};
      calls_.push_back(std::move(queued));
    }
    changed_.notify_all();
    return {std::move(ended), waits};
  }

  bool has_run_all() {
    const std::lock_guard lock{mutex_};
    return calls_.empty() && !running_;
  }

  void work() {
    for (;;) {
      std::unique_lock lock{mutex_};
      const auto due = [&] { return over_ || !calls_.empty(); };
      asleep_ = true;  // before it looks: a call that comes then wakes it
      if (device_.busy()) {
        asleep_ = false;
        changed_.wait_for(lock, device_.pause(), due);
      } else {
        changed_.wait(lock, [&] { return due() || device_.busy(); });
        asleep_ = false;
      }
      if (calls_.empty() && over_) return;
      std::optional<QueuedCall> queued;
      if (!calls_.empty()) {
        queued = std::move(calls_.front());
        calls_.pop_front();
        running_ = true;
      }
      std::exception_ptr error = failure_;
      lock.unlock();
      watch_device();
      if (!queued) continue;
      if (!error) error = error_of(queued->call);
      if (queued->profile) record(*queued, error != nullptr);
      end(*queued, error);
    }
  }

  void watch_device() {
    if (!device_.busy()) return;
    if (const auto error = device_.watch()) fail(error);
  }

  /// Checks the group and the device while a call waits for its stream.
  void poll_while_waiting() {
    if (const auto failed = group_.async_error()) std::rethrow_exception(failed);
    watch_device();
  }

  /// Runs a call. Whatever fails on one rank ends the group on all, which else would wait for it.
  std::exception_ptr error_of(HostCall& call) {
    try {
      host_.run(call);
      return nullptr;
    } catch (const std::exception&) {
      fail(std::current_exception());
      return std::current_exception();
    }
  }

  /// A call that has failed before its stream came to it has no time of its own.
  void record(const QueuedCall& queued, bool failed) const noexcept {
    const auto now = std::chrono::steady_clock::now();
    const HostCall& call = queued.call;
    try {
      Measurement record = std::visit(
          [&](const auto& known) { return record_of(known, group_.rank(), group_.size()); },
          call.call);
      const std::string way = failed ? "" : host_.way_of(call);
      record.algorithm = way;
      record.began = call.began == decltype(call.began){} ? now : call.began;
      record.ended = now;
      record.failed = failed;
      queued.profile->record(record);
    } catch (const std::exception&) {  // a record never reaches the call
    }
  }

  /// The stream continues first: who holds a lock may wait in the driver for that.
  void end(QueuedCall& queued, const std::exception_ptr& error) {
    host_.end(queued.call);
    {
      const std::lock_guard lock{mutex_};
      running_ = false;
    }
    if (error)
      queued.ended.set_exception(error);
    else
      queued.ended.set_value();
  }

  std::mutex calling_;  ///< held while a call is put into its stream, or ranks agree on it
  std::shared_ptr<const StreamProfile> profile_;  ///< of calls from now on; null: none
  Communicator group_;
  DevicePath device_;
  HostCalls host_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QueuedCall> calls_;
  std::exception_ptr failure_;
  bool running_ = false;  ///< a call that is no longer in calls_
  bool over_ = false;
  std::atomic<bool> asleep_ = false;  ///< the thread looks after nothing, until it is woken
  std::thread thread_;
};

StreamCollectives::StreamCollectives(Communicator& world)
    : impl_(std::make_unique<Impl>(world, world.settings())) {}
StreamCollectives::StreamCollectives(StreamCollectives&&) noexcept = default;
StreamCollectives& StreamCollectives::operator=(StreamCollectives&&) noexcept = default;
StreamCollectives::~StreamCollectives() = default;

int StreamCollectives::rank() const {
  return impl_->group().rank();
}
int StreamCollectives::size() const {
  return impl_->group().size();
}

std::string StreamCollectives::explain(const Request& request) const {
  return impl_->explain(request);
}
void StreamCollectives::abort(const std::string& reason) {
  impl_->fail(std::make_exception_ptr(Aborted(reason)));
}
std::exception_ptr StreamCollectives::async_error() const {
  return impl_->failure();
}

void StreamCollectives::attach(const Profiler& profiler, const std::string& tag) {
  const Communicator& group = impl_->group();
  impl_->attach(profiler.enabled()
                    ? std::make_shared<const StreamProfile>(
                          profiler, group.world_rank(group.rank()), group.size(), tag)
                    : nullptr);
}
void StreamCollectives::detach_profiler() {
  impl_->attach(nullptr);
}

bool StreamCollectives::is_idle() const {
  return impl_->is_idle();
}

Engine& StreamTuning::engine() const {
  return streams_.impl_->engine();
}
std::optional<DeviceLink> StreamTuning::link() const {
  return streams_.impl_->link();
}
void StreamTuning::use_rules(AlgorithmRules rules) {
  streams_.impl_->use_rules(std::move(rules));
}

void StreamCollectives::OnStream::run(const Request& request) {
  auto [ended, stream_waits] = impl_->put(request, stream_, false);
  if (!stream_waits) ended.get();
}

Work StreamCollectives::OnStream::start(const Request& request) {
  return work_from(impl_->put(request, stream_, true).first,
                   fmt::format("{} in the order of a stream", name_of(request.collective)));
}

void StreamCollectives::OnStream::exchange(const std::vector<Message>& messages) {
  auto [ended, stream_waits] = impl_->put(messages, stream_, false);
  if (!stream_waits) ended.get();
}

Work StreamCollectives::OnStream::start_exchange(const std::vector<Message>& messages) {
  return work_from(impl_->put(messages, stream_, true).first, "messages in the order of a stream");
}

}  // namespace capstan
