#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "capstan/async/foreign.hpp"
#include "capstan/async/streams.hpp"
#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/api/device_agreement.hpp"
#include "core/api/device_path.hpp"
#include "core/api/error_text.hpp"
#include "core/api/staged_call.hpp"
#include "core/api/stream_buffers.hpp"
#include "core/device/at_place.hpp"
#include "core/device/device_probe.hpp"
#include "core/device/gpu_page_locker.hpp"
#include "core/device/relaxed_capture.hpp"
#include "core/device/stream_events.hpp"
#include "core/memory/pinned_memory.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// How much of a long call is copied at a time, while the piece before it is reduced.
constexpr Bytes longest_piece{std::uint64_t{8} << 20};

/// A call that waits for its turn.
struct StreamCall {
  std::variant<Request, std::vector<Message>> call;
  std::optional<DeviceBuffer> where{};
  StreamEvent begins{};        ///< the event before it; null: at once
  StreamEvent passed{};        ///< the event behind the stream's wait
  std::uint32_t releases = 0;  ///< the number that lets its stream go on; 0: it waits for none
  std::unique_ptr<StagedCall> staged{};  ///< its stream copies by itself; null: the host copies
  std::promise<void> ended{};
};

Communicator group_of(Communicator& world) {
  return std::move(*world.split(0, world.rank()));
}

}  // namespace

/// The group of the calls, and the thread that makes those that go through pinned memory. It looks
/// after the others, too.
///
/// A call that nobody waits for is a StagedCall, if ranks have processes of their own. (In one
/// process a rank that takes pinned memory would wait for streams in which others wait for it.) Of
/// others the thread makes the copies, and handles tell when results are on the device:
///
///   stream:  | ... | event |               wait for the number | ...
///   thread:           poll it, copy in, reduce, copy out, raise it
class StreamCollectives::Impl {
  /// What ranks do together. All but InvalidArgument ends the group on all ranks, as the others
  /// would wait for this one.
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
        streams_copy_(have_processes_of_their_own(group_)),
        device_(group_of(world), settings),
        thread_([this] { work(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    take_done();
    const Deadline deadline = Deadline::in(5s);
    std::erase_if(passing_, [&](const Passing& call) {
      const bool came = call.event.comes(deadline);
      if (came) events_.give_back(call.event);
      return came;
    });
    // A stream that has not passed a wait reads its word later. That is never freed then.
    for (Passing& call : passing_)
      keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
    if (!passing_.empty())
      keep_for_good(std::make_shared<PinnedMemory::Handle>(std::move(number_)));
  }

  /// Puts a call between what is in the stream and what comes later. Whether the stream waits for
  /// its end is in `second`: if not, the caller has to.
  std::pair<std::future<void>, bool> put(const Request& request, void* stream, bool handle) {
    const std::lock_guard one_by_one{calling_};
    const std::string_view name = name_of(request.collective);
    const auto where = device_of(name, buffers_of(request, group_.rank()), stream);
    require_no_failure();
    if (!where) return put(StreamCall{.call = request}, stream, handle);
    if (const auto taken = agreed([&] { return device_.take(request, *where); }))
      return launch(*taken, *where, stream, handle);
    refuse_captured(name, *where, stream);
    return agreed([&] { return put(StreamCall{.call = request, .where = where}, stream, handle); });
  }
  std::pair<std::future<void>, bool> put(const std::vector<Message>& messages, void* stream,
                                         bool handle) {
    const std::lock_guard one_by_one{calling_};
    const auto where = device_of("exchange", buffers_of(messages), stream);
    if (where) refuse_captured("exchange", *where, stream);
    return agreed(
        [&] { return put(StreamCall{.call = messages, .where = where}, stream, handle); });
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
    take_done();
    forget_passed(passing_.size());
    const std::lock_guard lock{mutex_};
    return calls_.empty() && !running_ && passing_.empty() && device_.is_idle();
  }

  const Communicator& group() const { return group_; }

 private:
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
    auto ended = agreed([&] { return device_.launch(call, stream, manner); });
    if (asleep_ || manner == Manner::watched) {
      {
        const std::lock_guard lock{mutex_};  // the thread does not miss it
      }
      changed_.notify_all();
    }
    return {std::move(ended), stream != nullptr};
  }

  /// Without the lock: a thread that puts a call may wait in the driver for calls before it.
  std::pair<std::future<void>, bool> put(StreamCall call, void* stream, bool handle) {
    require_no_failure();
    const bool may_copy = streams_copy_ && !handle;
    if (call.where && stream && !(may_copy && stage(call, stream))) enter_stream(call, stream);
    const bool waits = call.releases != 0 || call.staged;
    auto ended = call.ended.get_future();
    {
      const std::lock_guard lock{mutex_};
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
    return {std::move(ended), waits};
  }

  /// False where the call cannot be a StagedCall.
  bool stage(StreamCall& call, void* stream) {
    call.staged = StagedCall::make(call.call, group_.rank(), group_.size(), *call.where,
                                   pinned(*call.where), longest_piece);
    if (!call.staged) return false;
    if (!probe_) probe_.emplace(*call.where);
    call.passed = event_at(*call.where);
    try {
      if (!call.staged->enter(stream)) {
        call.staged.reset();
        events_.give_back(std::exchange(call.passed, {}));
        return false;
      }
      call.passed.record(stream);
    } catch (...) {  // what is in the stream by now goes on
      call.staged->release_all();
      keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
      throw;
    }
    return true;
  }

  /// Events both ways: the call waits for one of the stream's, the stream for a number.
  void enter_stream(StreamCall& call, void* stream) {
    const DeviceBuffer& where = *call.where;
    make_number(where);
    call.begins = event_at(where);
    call.passed = event_at(where);
    std::uint32_t number = put_ + 1;
    call.begins.record(stream);
    at_place(where, "putting a call into a stream", [&](DeviceDriver& driver) {
      const int error = driver.wait_for_flag(stream, number_word(), number);
      if (error == DeviceDriver::not_supported) number = 0;
      return number != 0 ? error : 0;
    });
    call.passed.record(stream);
    call.releases = number;
    if (number != 0) put_ = number;
  }

  void make_number(const DeviceBuffer& where) {
    if (!number_.empty()) return;
    number_ = pinned(where).allocate(Bytes{64});
    *number_word() = 0;
  }
  PinnedMemory& pinned(const DeviceBuffer& where) {
    if (!pinned_) pinned_.emplace(make_page_locker(where), group_.settings().pinned_memory);
    return *pinned_;
  }
  std::uint32_t* number_word() const { return reinterpret_cast<std::uint32_t*>(number_.data()); }

  /// An event that is not in use.
  StreamEvent event_at(const DeviceBuffer& where) {
    constexpr std::size_t at_a_time = 4;  // the driver takes a microsecond to tell
    take_done();
    forget_passed(std::min(passing_.size(), at_a_time));
    return events_.take(where);
  }
  /// Of so many calls, forgets those that their streams have passed. What the driver says an error
  /// of may still be in use.
  void forget_passed(std::size_t looked_at) {
    for (std::size_t i = 0; i < looked_at; ++i) {
      Passing call = std::move(passing_.front());
      passing_.pop_front();
      const RelaxedCapture relaxed{*call.event.at.driver};
      try {
        if (call.event.has_come())
          events_.give_back(call.event);
        else
          passing_.push_back(std::move(call));
      } catch (const Error&) {
        keep_for_good(std::shared_ptr<StagedCall>{std::move(call.staged)});
      }
    }
  }
  /// What the thread is done with goes over to the threads that put calls.
  void take_done() {
    std::deque<Done> done;
    {
      const std::lock_guard lock{mutex_};
      done = std::exchange(done_, {});
    }
    for (Done& call : done) {
      events_.give_back(call.begins);
      if (call.passing.event) passing_.push_back(std::move(call.passing));
    }
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
      std::optional<StreamCall> call;
      if (!calls_.empty()) {
        call = std::move(calls_.front());
        calls_.pop_front();
        running_ = true;
      }
      std::exception_ptr error = failure_;
      lock.unlock();
      watch_device();
      if (!call) continue;
      if (!error) error = error_of(*call);
      end(*call, error);
    }
  }

  void watch_device() {
    if (!device_.busy()) return;
    if (const auto error = device_.watch()) fail(error);
  }

  /// Runs a call. Whatever fails on one rank ends the group on all, which else would wait for it.
  std::exception_ptr error_of(const StreamCall& call) {
    try {
      if (call.begins) {
        const RelaxedCapture relaxed{*call.begins.at.driver};
        await_event(call);
      }
      if (call.staged)
        run(*call.staged);
      else
        std::visit([this](const auto& what) { run(what); }, call.call);
      return nullptr;
    } catch (const std::exception&) {
      fail(std::current_exception());
      return std::current_exception();
    }
  }

  void await_event(const StreamCall& call) {
    await([&] { return call.begins.has_come(); });
  }
  template <class Condition>
  void await(const Condition& condition) {
    for (int polls = 0; !condition(); ++polls) {
      if (const auto failed = group_.async_error()) std::rethrow_exception(failed);
      watch_device();
      std::this_thread::sleep_for(polls < 100 ? 5us : 50us);
    }
  }

  /// Two pieces are under way at a time.
  void run(StagedCall& staged) {
    const HostMemoryOnly known;
    std::optional<Work> before;
    try {
      for (std::size_t piece = 0; piece < staged.pieces(); ++piece) {
        await_arrival(staged, piece);
        Work work =
            std::visit([this](const auto& what) { return start(what); }, staged.piece(piece));
        if (staged.pieces() > 1) work.ensure_progress();
        if (before) {
          before->wait();
          staged.release(piece - 1);
        }
        before = std::move(work);
      }
      before->wait();
    } catch (const std::exception&) {
      fail(std::current_exception());
      if (before) await_end(*before);  // it uses the memory
      throw;
    }
  }
  static void await_end(const Work& work) {
    try {
      static_cast<void>(work.wait_until(Deadline::in(5s)));
    } catch (const std::exception&) {  // it has ended
    }
  }
  void await_arrival(const StagedCall& staged, std::size_t piece) {
    await([&] {
      if (staged.arrived(piece)) return true;
      probe_->look();
      return false;
    });
  }
  Work start(const Request& request) { return group_.start(request); }
  Work start(const std::vector<Message>& messages) { return group_.start_exchange(messages); }

  void run(const std::vector<Message>& messages) { group_.exchange(messages); }

  /// Two pieces are under way at a time: starting the second copies its input, while the library's
  /// thread works on the first.
  void run(const Request& request) {
    std::optional<Work> before;
    const auto pieces = pieces_of(request, longest_piece);
    for (const Request& piece : pieces) {
      Work work = group_.start(piece);
      if (pieces.size() > 1) work.ensure_progress();
      if (before) before->wait();
      before = std::move(work);
    }
    before->wait();
  }

  /// The stream goes on first: who holds a lock may wait in the driver for that.
  void end(StreamCall& call, const std::exception_ptr& error) {
    if (call.staged) call.staged->release_all();
    if (call.releases != 0)
      std::atomic_ref{*number_word()}.store(call.releases, std::memory_order_release);
    {
      const std::lock_guard lock{mutex_};
      running_ = false;
      done_.push_back({call.begins, {call.passed, std::move(call.staged)}});
    }
    if (error)
      call.ended.set_exception(error);
    else
      call.ended.set_value();
  }

  /// A call that has ended, but that its stream may not have passed.
  struct Passing {
    StreamEvent event{};
    std::unique_ptr<StagedCall> staged{};
  };
  struct Done {
    StreamEvent begins{};
    Passing passing{};
  };

  std::mutex calling_;  ///< held while a call is put into its stream, or ranks agree on it
  Communicator group_;
  const bool streams_copy_;  ///< the same on all ranks
  DevicePath device_;
  std::optional<PinnedMemory> pinned_;  // made when first needed, as it initialises drivers
  std::optional<DeviceProbe> probe_;    // of the thread, from the first StagedCall on
  PinnedMemory::Handle number_;         ///< of the last call whose stream may go on
  std::uint32_t put_ = 0;               ///< the number of the last call that a stream waits for
  StreamEvents events_;
  std::deque<Passing> passing_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StreamCall> calls_;
  std::deque<Done> done_;
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

bool StreamCollectives::is_idle() const {
  return impl_->is_idle();
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
