// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/values/buffers.hpp"
#include "capstan/values/scheduler.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// A value whose accesses order themselves. Tasks get at it through buffers, each of which takes
/// its place in the order when it is made; what is read between two writes runs in parallel.
/// Programs read as if they were sequential, and need neither threads nor locks.
///
///   Async<double> x = 1.0, y;                 // y has no value yet
///   schedule(scale(x.read(), y.write()));     // see AsyncTask
///   double result = y.get_wait();
///
/// A handle: moving it is cheap, and buffers keep the value alive without it. T is any object type;
/// the functions that copy, and only they, need T to be copyable. Different handles may be used by
/// different threads; the order of accesses to one value is that of the calls, so that one thread
/// makes them, or threads that order them. One that was moved from may be assigned to; everything
/// else throws InvalidArgument.
template <class T>
class Async {
 public:
  static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                "Async holds an object that can change");
  using value_type = T;

  /// No value: reading it before it is written is a NotWritten.
  Async() : value_(new detail::Value<T>) {}

  /// From what T can be made of; implicit where T's own conversion is.
  template <class U = T>
    requires(!std::same_as<std::remove_cvref_t<U>, Async> &&
             !std::same_as<std::remove_cvref_t<U>, std::in_place_t> &&
             std::constructible_from<T, U>)
  explicit(!std::convertible_to<U, T>) Async(U&& value)
      : value_(new detail::Value<T>(std::in_place, std::forward<U>(value))) {}

  template <class... Args>
    requires std::constructible_from<T, Args...>
  explicit Async(std::in_place_t, Args&&... args)
      : value_(new detail::Value<T>(std::in_place, std::forward<Args>(args)...)) {}

  /// A value of its own, to which the other's is copied by a task as soon as that can be read: the
  /// copy's first epoch. The two share nothing.
  Async(const Async& other)
    requires std::copy_constructible<T>
      : Async() {
    async_assign(other, *this);
  }
  /// The next epoch of this value is a copy of the other one.
  Async& operator=(const Async& other)
    requires std::copy_constructible<T>
  {
    if (this == &other) return *this;
    if (!valid()) *this = Async{};
    async_assign(other, *this);
    return *this;
  }
  Async(Async&&) noexcept = default;
  Async& operator=(Async&&) noexcept = default;
  ~Async() = default;

  bool valid() const { return value_ != nullptr; }

  /// To read what was written last before this call.
  ReadBuffer<T> read() const { return ReadBuffer<T>{checked()}; }
  /// To read and change what was written last before this call.
  MutableBuffer<T> mutate() { return MutableBuffer<T>{checked()}; }
  /// To replace it.
  WriteBuffer<T> write() { return WriteBuffer<T>{checked()}; }
  /// To make it anew in its place.
  EmplaceBuffer<T> emplace() { return EmplaceBuffer<T>{checked()}; }

  /// Returns when what was written last before this call can be read; by default the current
  /// scheduler runs tasks meanwhile, or this thread sleeps. A DebugScheduler makes it
  /// deterministic.
  void wait() const { wait(current_scheduler()); }
  void wait(Scheduler& scheduler) const { (void)waited(scheduler); }
  /// ... and gives a copy. Throws like ReadBuffer, and Deadlock if the scheduler finds one.
  T get_wait() const
    requires std::copy_constructible<T>
  {
    return get_wait(current_scheduler());
  }
  T get_wait(Scheduler& scheduler) const
    requires std::copy_constructible<T>
  {
    return waited(scheduler).get();
  }
  /// ... and moves the value out, which leaves what T leaves when it is moved from.
  T take_wait()
    requires std::move_constructible<T>
  {
    return take_wait(current_scheduler());
  }
  T take_wait(Scheduler& scheduler)
    requires std::move_constructible<T>
  {
    MutableBuffer<T> buffer = mutate();
    scheduler.wait(buffer);
    return std::move(buffer.get());
  }

  /// Its address, type and index, as graphs of tasks show it.
  NodeInfo info() const { return checked().info(); }

 private:
  struct Drop {
    void operator()(detail::Value<T>* value) const { value->drop_user(); }
  };

  detail::Value<T>& checked() const {
    if (!value_)
      throw InvalidArgument(
          "an Async value was used that has been moved from: assign to it before");
    return *value_;
  }

  ReadBuffer<T> waited(Scheduler& scheduler) const {
    ReadBuffer<T> buffer = read();
    scheduler.wait(buffer);
    return buffer;
  }

  std::unique_ptr<detail::Value<T>, Drop> value_;
};

template <class T>
Async(T) -> Async<T>;

namespace detail {

template <class T>
AsyncTask copy_task(ReadBuffer<T> from, EmplaceBuffer<T> to) {
  const T& value = co_await from;
  co_await std::move(to)(value);
}

}  // namespace detail

/// Schedules a copy of what `from` holds by now, as the next epoch of `to`.
template <std::copy_constructible T>
void async_assign(const Async<T>& from, Async<T>& to) {
  schedule(detail::copy_task(from.read(), to.emplace()));
}

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
