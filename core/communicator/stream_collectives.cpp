// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

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
#include "core/communicator/stream_records.hpp"
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

/// The group of the calls, and the thread that makes those of the host.
class StreamCollectives::Impl {
  /// Runs what ranks do together. Any error but InvalidArgument ends the group on all ranks, as the
  /// others would wait for this one.
  template <class Body>
  auto agreed(const Body& body) {
    try {
      return body();
    } catch (const InvalidArgument&) {
      throw;
    } catch (const std::exception& error) {
      engine().abort(error);
      throw;
    }
  }

 public:
  Impl(Communicator& world, const Settings& settings)
      : group_(group_of(world)),
        device_(sharing_failures(group_of(world)), settings, &engine_of),
        host_(group_, settings.pinned_memory,
              {.meanwhile =
                   [this] {
                     if (const auto failed = failure()) std::rethrow_exception(failed);
                   },
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

  /// Puts a call between what is in the stream and what comes later. The Work is there where
  /// somebody wants a handle, or where the stream does not wait for the end: the caller has to.
  Work put(const Request& request, void* stream, bool handle) {
    const std::lock_guard one_by_one{calling_};
    const std::string_view name = name_of(request.collective);
    const auto where = device_of(name, buffers_of(request, group_.rank()), stream);
    require_no_failure();
    if (!where) return put(HostCall{.call = request}, name, stream, handle);
    if (const auto taken = agreed([&] { return device_.take(request, *where); }))
      return launch(*taken, *where, stream, handle);
    refuse_captured(name, *where, stream);
    return agreed(
        [&] { return put(HostCall{.call = request, .where = where}, name, stream, handle); });
  }
  Work put(const std::vector<Message>& messages, void* stream, bool handle) {
    const std::lock_guard one_by_one{calling_};
    const auto where = device_of("exchange", buffers_of(messages), stream);
    if (where) refuse_captured("exchange", *where, stream);
    return agreed([&] {
      return put(HostCall{.call = messages, .where = where}, "messages", stream, handle);
    });
  }

  std::string explain(const Request& request) {
    const std::lock_guard one_by_one{calling_};
    return device_.explain(request);
  }
  void abort(const std::string& reason) { engine().abort(reason); }
  std::exception_ptr failure() { return group_.async_error(); }

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

  /// A failure of one group of these calls is that of all.
  Communicator sharing_failures(Communicator other) {
    engine().share_failures(engine_of(other));
    return other;
  }

  void require_no_failure() {
    if (engine().has_failed()) std::rethrow_exception(failure());
  }

  static std::string name_in_stream(std::string_view call) {
    return fmt::format("{} in the order of a stream", call);
  }

  Work launch(const DevicePath::Taken& call, const DeviceBuffer& where, void* stream, bool handle) {
    const std::string_view name = name_of(call.checked.call.collective);
    const bool capturing = is_captured(where, stream);
    if (capturing && handle)
      throw InvalidArgument(fmt::format(
          "{}: a call that is captured into a graph has no handle: make the blocking call, which "
          "returns at once",
          name));
    using Manner = DevicePath::Manner;
    const Manner manner = capturing           ? Manner::captured
                          : handle || !stream ? Manner::watched
                                              : Manner::unwatched;
    return agreed(
        [&] { return device_.launch(call, stream, manner, profile_, name_in_stream(name)); });
  }

  /// Without the lock: a thread that puts a call may wait in the driver for calls before it.
  Work put(HostCall call, std::string_view name, void* stream, bool handle) {
    require_no_failure();
    if (call.where && stream) host_.enter(call, stream, handle);
    const bool awaited = handle || !call.holds_stream();
    if (profile_) call.staged_messages = std::make_shared<std::atomic<std::size_t>>(0);
    QueuedCall queued{.call = std::move(call), .profile = profile_};
    auto ended = queued.ended.get_future();
    {
      const std::lock_guard lock{mutex_};
      calls_.push_back(std::move(queued));
    }
    changed_.notify_all();
    return awaited ? work_from(std::move(ended), name_in_stream(name)) : Work{};
  }

  bool has_run_all() {
    const std::lock_guard lock{mutex_};
    return calls_.empty() && !running_;
  }

  void work() {
    for (;;) {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return over_ || !calls_.empty(); });
      if (calls_.empty()) return;
      QueuedCall queued = std::move(calls_.front());
      calls_.pop_front();
      running_ = true;
      lock.unlock();
      const std::exception_ptr error = error_of(queued.call);
      if (queued.profile) record(queued, error != nullptr);
      end(queued, error);
    }
  }

  /// Runs a call. Whatever fails on one rank ends the group on all, which else would wait for it.
  std::exception_ptr error_of(HostCall& call) {
    try {
      require_no_failure();
      host_.run(call);
      return nullptr;
    } catch (const std::exception& error) {
      engine().abort(error);
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
  bool running_ = false;  ///< a call that is no longer in calls_
  bool over_ = false;
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
  impl_->abort(reason);
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
  if (const Work work = impl_->put(request, stream_, false); work.valid()) work.wait();
}

Work StreamCollectives::OnStream::start(const Request& request) {
  return impl_->put(request, stream_, true);
}

void StreamCollectives::OnStream::exchange(const std::vector<Message>& messages) {
  if (const Work work = impl_->put(messages, stream_, false); work.valid()) work.wait();
}

Work StreamCollectives::OnStream::start_exchange(const std::vector<Message>& messages) {
  return impl_->put(messages, stream_, true);
}

}  // namespace capstan
