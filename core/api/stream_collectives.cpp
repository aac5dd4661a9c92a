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
#include "core/api/stream_buffers.hpp"
#include "core/device/at_place.hpp"
#include "core/device/gpu_page_locker.hpp"
#include "core/memory/pinned_memory.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// How much of a long call is copied at a time, while the piece before it is reduced.
constexpr Bytes longest_piece{std::uint64_t{8} << 20};

/// A call that waits for its turn.
struct StreamCall {
  std::variant<Request, std::vector<Message>> call;
  std::optional<DeviceBuffer> where;
  void* begins = nullptr;      ///< the event before it; null: at once
  void* passed = nullptr;      ///< the event behind the stream's wait
  std::uint32_t releases = 0;  ///< the number that lets its stream go on; 0: it waits for none
  std::promise<void> ended{};
};

Communicator group_of(Communicator& world) {
  return std::move(*world.split(0, world.rank()));
}

}  // namespace

/// The group of the calls, and the thread that makes them.
///
///   stream:  | ... | event |               wait for the number | ...
///   thread:           poll it, copy in, reduce, copy out, raise it
class StreamCollectives::Impl {
 public:
  explicit Impl(Communicator& world) : group_(group_of(world)), thread_([this] { work(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    const Deadline deadline = Deadline::in(5s);
    std::erase_if(passing_, [&](const Event& event) {
      const bool came = comes(event, deadline);
      if (came) release(event);
      return came;
    });
    // A stream that has not passed the number reads it later. The number is never freed then.
    if (!passing_.empty()) static_cast<void>(new PinnedMemory::Handle{std::move(number_)});
    for (const Event& event : idle_) release(event);
  }

  /// Puts a call between what is in the stream and what comes later. Whether the stream waits for
  /// its end is in `second`: if not, the caller has to.
  std::pair<std::future<void>, bool> put(const Request& request, void* stream) {
    return put({.call = request,
                .where = device_of(name_of(request.collective), buffers_of(request), stream)},
               stream);
  }
  std::pair<std::future<void>, bool> put(const std::vector<Message>& messages, void* stream) {
    return put({.call = messages, .where = device_of("exchange", buffers_of(messages), stream)},
               stream);
  }

  const Communicator& group() const { return group_; }

 private:
  using Event = std::pair<DeviceBuffer, void*>;

  std::pair<std::future<void>, bool> put(StreamCall call, void* stream) {
    const std::lock_guard lock{mutex_};
    if (failure_) std::rethrow_exception(failure_);
    if (call.where && stream) enter_stream(call, stream);
    const bool waits = call.releases != 0;
    auto ended = call.ended.get_future();
    calls_.push_back(std::move(call));
    changed_.notify_all();
    return {std::move(ended), waits};
  }

  /// Events both ways: the call waits for one of the stream's, the stream for a number.
  void enter_stream(StreamCall& call, void* stream) {
    const DeviceBuffer& where = *call.where;
    make_number();
    call.begins = event_at(where);
    call.passed = event_at(where);
    std::uint32_t number = put_ + 1;
    at_place(where, "putting a call into a stream", [&](DeviceDriver& driver) {
      if (const int error = driver.record(call.begins, stream)) return error;
      const int error = driver.wait_for_flag(stream, number_word(), number);
      if (error == DeviceDriver::not_supported) number = 0;
      if (error != 0 && number != 0) return error;
      return driver.record(call.passed, stream);
    });
    call.releases = number;
    if (number != 0) put_ = number;
  }

  void make_number() {
    if (!number_.empty()) return;
    if (!pinned_) pinned_.emplace(make_page_locker());
    number_ = pinned_->allocate(Bytes{64});
    *number_word() = 0;
  }
  std::uint32_t* number_word() const { return reinterpret_cast<std::uint32_t*>(number_.data()); }

  /// An event that is not in use.
  void* event_at(const DeviceBuffer& where) {
    std::erase_if(passing_, [&](const Event& event) {
      const bool came = comes(event, Deadline::in(0s));
      if (came) idle_.push_back(event);
      return came;
    });
    const auto found = std::ranges::find_if(idle_, [&](const Event& event) {
      return event.first.driver == where.driver && event.first.place == where.place;
    });
    void* event = nullptr;
    if (found != idle_.end()) {
      event = found->second;
      idle_.erase(found);
    } else {
      at_place(where, "making an event",
               [&](DeviceDriver& driver) { return driver.make_event(event); });
    }
    return event;
  }
  /// Whether an event comes in time. A device that is lost lets everything pass.
  static bool comes(const Event& event, Deadline deadline) {
    for (;; std::this_thread::sleep_for(50us)) {
      int state = 0;
      try {
        at_place(event.first, "asking for an event", [&](DeviceDriver& driver) {
          state = driver.query_event(event.second);
          return 0;
        });
      } catch (const Error&) {
        return true;
      }
      if (state != DeviceDriver::not_ready) return true;
      if (deadline.expired()) return false;
    }
  }
  static void release(const Event& event) {
    try {
      at_place(event.first, "releasing an event",
               [&](DeviceDriver& driver) { return driver.release_event(event.second); });
    } catch (const Error&) {  // a lost device has none any more
    }
  }

  void work() {
    for (;;) {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return over_ || !calls_.empty(); });
      if (calls_.empty()) return;
      StreamCall call = std::move(calls_.front());
      calls_.pop_front();
      std::exception_ptr error = failure_;
      lock.unlock();
      if (!error) error = error_of(call);
      end(call, error);
    }
  }

  /// Runs a call. Whatever fails on one rank ends the group on all, which else would wait for it.
  std::exception_ptr error_of(const StreamCall& call) {
    try {
      if (call.begins) await_event(call);
      std::visit([this](const auto& what) { run(what); }, call.call);
      return nullptr;
    } catch (const std::exception& error) {
      group_.abort(error.what());
      return std::current_exception();
    }
  }

  void await_event(const StreamCall& call) {
    for (int polls = 0;; ++polls) {
      int state = 0;
      at_place(*call.where, "waiting for a stream", [&](DeviceDriver& driver) {
        state = driver.query_event(call.begins);
        return state == DeviceDriver::not_ready ? 0 : state;
      });
      if (state == 0) return;
      if (const auto failed = group_.async_error()) std::rethrow_exception(failed);
      std::this_thread::sleep_for(polls < 100 ? 5us : 50us);
    }
  }

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

  /// Results are on the device by now.
  void end(StreamCall& call, const std::exception_ptr& error) {
    {
      const std::lock_guard lock{mutex_};
      if (error && !failure_) failure_ = error;
      if (call.begins) idle_.emplace_back(*call.where, call.begins);
      if (call.passed) passing_.emplace_back(*call.where, call.passed);
    }
    if (call.releases != 0)
      std::atomic_ref{*number_word()}.store(call.releases, std::memory_order_release);
    if (error)
      call.ended.set_exception(error);
    else
      call.ended.set_value();
  }

  Communicator group_;
  std::optional<PinnedMemory> pinned_;  // made when first needed, as it initialises drivers
  PinnedMemory::Handle number_;         ///< of the last call whose stream may go on
  std::uint32_t put_ = 0;               ///< the number of the last call that a stream waits for

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StreamCall> calls_;
  std::vector<Event> idle_, passing_;  ///< passing: behind waits of streams for the number
  std::exception_ptr failure_;
  bool over_ = false;
  std::thread thread_;
};

StreamCollectives::StreamCollectives(Communicator& world) : impl_(std::make_unique<Impl>(world)) {}
StreamCollectives::StreamCollectives(StreamCollectives&&) noexcept = default;
StreamCollectives& StreamCollectives::operator=(StreamCollectives&&) noexcept = default;
StreamCollectives::~StreamCollectives() = default;

int StreamCollectives::rank() const {
  return impl_->group().rank();
}
int StreamCollectives::size() const {
  return impl_->group().size();
}

void StreamCollectives::OnStream::run(const Request& request) {
  auto [ended, stream_waits] = impl_->put(request, stream_);
  if (!stream_waits) ended.get();
}

Work StreamCollectives::OnStream::start(const Request& request) {
  return work_from(impl_->put(request, stream_).first,
                   fmt::format("{} in the order of a stream", name_of(request.collective)));
}

void StreamCollectives::OnStream::exchange(const std::vector<Message>& messages) {
  auto [ended, stream_waits] = impl_->put(messages, stream_);
  if (!stream_waits) ended.get();
}

Work StreamCollectives::OnStream::start_exchange(const std::vector<Message>& messages) {
  return work_from(impl_->put(messages, stream_).first, "messages in the order of a stream");
}

}  // namespace capstan
