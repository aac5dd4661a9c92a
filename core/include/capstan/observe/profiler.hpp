// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/observe/operation_profile.hpp"
#include "capstan/quantity.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

struct ProfilerState;

namespace detail {

/// The awaiter of co_await: the result of operator co_await, or the object itself.
template <class A>
decltype(auto) awaiter_of(A&& awaitable) {
  if constexpr (requires { std::forward<A>(awaitable).operator co_await(); })
    return std::forward<A>(awaitable).operator co_await();
  else if constexpr (requires { operator co_await(std::forward<A>(awaitable)); })
    return operator co_await(std::forward<A>(awaitable));
  else
    return std::forward<A>(awaitable);
}

}  // namespace detail

/// A measured operation, for Profiler::record().
struct Measurement {
  std::string_view operation{};
  Bytes bytes{};
  std::chrono::steady_clock::time_point began{}, ended{};
  int ranks = 0;
  std::string_view algorithm{};
  int rank = -1;
  std::string_view tag{};
  bool failed = false;
};

/// A step of a measured operation, for Profiler::record().
struct StepMeasurement {
  std::string_view step{};
  int peer = -1;
  Bytes bytes{};
  std::uint64_t block = 0;
  std::uint32_t number = 0;
  std::chrono::steady_clock::time_point began{}, ended{};
};

struct ProfilerOptions {
  bool enabled = true;
  /// The operations that are stored, 64 bytes each. Later ones replace the oldest; statistics count
  /// them all.
  std::size_t capacity = std::size_t{1} << 14;
  /// The steps of collectives that are stored, 64 bytes each; later ones replace the oldest. 0:
  /// none, and calls cost nothing more. Of each call the first 65,536. Recording takes two readings
  /// of the clock for each step.
  std::size_t steps = 0;
  /// A file in which they lie (in memory: in /dev/shm), so that other processes can read them at
  /// any time, also when this one has ended in any way: see read_profiles(). Replaces an older one.
  /// Empty: only this process has them.
  std::string file{};
};

/// Measures operations: collectives of communicators, functions, works, awaitables.
///
///   capstan::Profiler profiler;
///   world.attach(profiler);                       // every collective, with its algorithm
///   auto sum = profiler.profile("step", bytes, [&] { return step(); });
///   std::puts(profiler.statistics().to_string().c_str());
///
/// An operation that throws is recorded as failed, and its exception passes on. An error of the
/// profiler itself never reaches the operation: lost() counts what could not be recorded. Memory is
/// bounded, and taken when the profiler is made: by the capacity, by 1022 different names of up to
/// 63 characters (further ones are called "(other)") and by 255 pairs of operation and algorithm
/// (further ones are counted together). Recording allocates nothing.
///
/// Copies share what they record, which lives as long as any of them, and as long as a communicator
/// is attached. Thread-safe. Where a profiler is not enabled, operations just run.
class Profiler {
 public:
  explicit Profiler(bool enabled = true) : Profiler(ProfilerOptions{.enabled = enabled}) {}
  /// Throws InvalidArgument for a capacity of 0, or of more than 2^24 operations or steps,
  /// SystemError without memory or where the file cannot be made.
  explicit Profiler(const ProfilerOptions& options);

  bool enabled() const { return state_ != nullptr; }

  /// Runs `function` and returns its result.
  template <std::invocable Function>
  std::invoke_result_t<Function> profile(std::string_view operation, Bytes bytes,
                                         Function&& function, int ranks = 0,
                                         std::string_view algorithm = {}) {
    if (!enabled()) return std::invoke(std::forward<Function>(function));
    const Span span{
        *this, {.operation = operation, .bytes = bytes, .ranks = ranks, .algorithm = algorithm}};
    return std::invoke(std::forward<Function>(function));
  }

  /// Calls `start`, which starts something and returns it, and measures until that has ended. A
  /// Work is returned as it is; it counts as failed when it is cancelled. Anything else is to be
  /// awaited, once, and ends when co_await returns: what is not awaited to its end is not recorded.
  template <std::invocable Start>
  auto profile_async(std::string_view operation, Bytes bytes, Start&& start, int ranks = 0,
                     std::string_view algorithm = {});

  /// Adds an operation that the program has measured itself.
  void record(const Measurement& measurement) noexcept;
  /// The same with the operation's steps, of which only those are stored that there is room for.
  void record(const Measurement& measurement, std::span<const StepMeasurement> steps) noexcept;

  /// The operations that are stored, in the order in which they ended.
  std::vector<OperationProfile> profiles() const;
  /// The steps that are stored, by operation, and of each in the order in which they ended.
  std::vector<StepProfile> steps() const;
  /// The most steps that are stored.
  std::size_t step_capacity() const;
  /// The statistics of all operations since the profiler was made or cleared.
  ProfileStatistics statistics() const;
  /// The same for each pair of operation and algorithm, in the order in which they first came.
  std::vector<ProfileGroup> groups() const;
  /// Operations that an error of the profiler has kept from being recorded.
  std::uint64_t lost() const;
  /// Forgets all operations.
  void clear();

 private:
  /// An operation that ends with the scope. It has failed if an exception ends the scope.
  class Span {
   public:
    Span(Profiler& profiler, const Measurement& measurement)
        : profiler_(profiler), measurement_(measurement) {
      measurement_.began = std::chrono::steady_clock::now();
    }
    Span(const Span&) = delete;
    ~Span() {
      measurement_.ended = std::chrono::steady_clock::now();
      measurement_.failed = std::uncaught_exceptions() > exceptions_;
      profiler_.record(measurement_);
    }

   private:
    Profiler& profiler_;
    Measurement measurement_;
    const int exceptions_ = std::uncaught_exceptions();
  };

  class Pending;
  template <class Awaitable>
  class Measured;

  /// The same name in memory that lives as long as the state.
  std::string_view kept(std::string_view name) const noexcept;
  void lose() noexcept;
  /// Records the end of a work.
  static Work end_with(const Pending& pending, Work work);

  std::shared_ptr<ProfilerState> state_;
};

/// An operation that has begun and ends elsewhere.
class Profiler::Pending {
 public:
  Pending(const Profiler& profiler, Measurement measurement) noexcept
      : profiler_(profiler), measurement_(measurement) {
    if (!profiler_.enabled()) return;
    measurement_.operation = profiler_.kept(measurement.operation);
    measurement_.algorithm = profiler_.kept(measurement.algorithm);
    measurement_.began = std::chrono::steady_clock::now();
  }

  void end(bool failed) noexcept {
    measurement_.ended = std::chrono::steady_clock::now();
    measurement_.failed = failed;
    profiler_.record(measurement_);
  }
  /// The end cannot be learnt.
  void lose() noexcept { profiler_.lose(); }

 private:
  Profiler profiler_;
  Measurement measurement_;
};

/// Awaits what it is made of, and records the end.
template <class Awaitable>
class Profiler::Measured {
 public:
  Measured(const Pending& pending, Awaitable awaitable)
      : pending_(pending), awaitable_(std::move(awaitable)) {}

  auto operator co_await() && {
    return Awaiter<decltype(detail::awaiter_of(std::move(awaitable_)))>{*this};
  }

 private:
  template <class Inner>
  class Awaiter {
   public:
    explicit Awaiter(Measured& measured)
        : pending_(measured.pending_), inner_(detail::awaiter_of(std::move(measured.awaitable_))) {}
    bool await_ready() { return inner_.await_ready(); }
    template <class Promise>
    auto await_suspend(std::coroutine_handle<Promise> awaiting) {
      return inner_.await_suspend(awaiting);
    }
    decltype(auto) await_resume() {
      struct AtEnd {
        ~AtEnd() { pending.end(std::uncaught_exceptions() > exceptions); }
        Pending& pending;
        const int exceptions = std::uncaught_exceptions();
      } const at_end{pending_};
      return inner_.await_resume();
    }

   private:
    Pending pending_;
    Inner inner_;
  };

  Pending pending_;
  Awaitable awaitable_;
};

/// The operations that a profiler of any process has stored in its file (ProfilerOptions::file).
/// The profiler is not disturbed: an operation that it replaces meanwhile is left out. Throws
/// SystemError, and InvalidArgument for a file that is no recording.
std::vector<OperationProfile> read_profiles(const std::string& file);

template <std::invocable Start>
auto Profiler::profile_async(std::string_view operation, Bytes bytes, Start&& start, int ranks,
                             std::string_view algorithm) {
  using Started = std::invoke_result_t<Start>;
  Pending pending{*this,
                  {.operation = operation, .bytes = bytes, .ranks = ranks, .algorithm = algorithm}};
  const auto started = [&]() -> Started {
    try {
      return std::invoke(std::forward<Start>(start));
    } catch (...) {
      pending.end(true);
      throw;
    }
  };
  if constexpr (std::same_as<Started, Work>)
    return enabled() ? end_with(pending, started()) : started();
  else
    return Measured<std::remove_cvref_t<Started>>{pending, started()};
}

}  // namespace CAPSTAN_EXPORT capstan
