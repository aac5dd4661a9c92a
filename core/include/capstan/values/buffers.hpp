// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <tuple>
#include <type_traits>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/values/task.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

namespace detail {
class BufferWait;
}

/// A place in the order of accesses to a value, taken when the buffer is made. It keeps the value
/// alive, and the next accesses waiting, until release() or its destruction. Made by Async; passed
/// by value into the coroutine that uses it. One thread at a time may use a buffer.
class BufferBase {
 public:
  /// Ends the access before the buffer is destroyed; afterwards the buffer is empty. What was
  /// awaited may not be used any more.
  void release() noexcept;
  bool valid() const { return queue_ != nullptr; }
  /// Whether co_await would continue at once.
  bool is_ready() const { return EpochQueue::is_ready(*epoch_, access_); }
  /// The epoch that is read or written, from 0 on.
  std::uint64_t epoch() const { return epoch_->number; }
  /// A text that names the access, read or write, and the epoch of the value.
  std::string describe() const;

 protected:
  using Access = EpochQueue::Access;

  BufferBase(EpochQueue& queue, EpochQueue::Epoch& epoch, Access access)
      : queue_(&queue), epoch_(&epoch), access_(access) {}
  BufferBase(BufferBase&& other) noexcept
      : queue_(std::exchange(other.queue_, nullptr)),
        epoch_(other.epoch_),
        waiter_(std::exchange(other.waiter_, nullptr)),
        access_(other.access_),
        written_(other.written_) {}
  BufferBase& operator=(BufferBase&& other) noexcept;
  ~BufferBase() {
    if (queue_) release();
  }

  /// Suspends the task until the buffer is ready. False if it is.
  bool suspend(TaskPromise& task);
  [[noreturn]] void throw_not_written() const;
  [[noreturn]] void throw_released() const;
  void check_valid() const {
    if (!queue_) throw_released();
  }
  /// After the wait.
  void resumed();
  void set_written() { written_ = true; }
  EpochQueue& queue() const { return *queue_; }
  EpochQueue::Epoch& epoch_of_queue() const { return *epoch_; }

 private:
  friend class TaskPromise;
  friend class Scheduler;
  friend class detail::BufferWait;
  void release(const std::exception_ptr* error) noexcept;

  EpochQueue* queue_;
  EpochQueue::Epoch* epoch_;
  detail::Waiter* waiter_ = nullptr;  ///< may still wait for the epoch
  BufferBase* next_argument_ = nullptr;
  Access access_;
  bool written_ = false;
};

namespace detail {

/// Suspends until a buffer is ready, then returns what `Get` makes of it.
template <class B, class Get>
struct BufferAwaiter {
  B& buffer;
  [[no_unique_address]] Get get;

  bool await_ready() const {
    buffer.check_valid();
    return buffer.is_ready();
  }
  bool await_suspend(AsyncTask::Handle task) { return buffer.suspend(task.promise()); }
  decltype(auto) await_resume() {
    buffer.resumed();
    return get(buffer);
  }
};

template <class B, class Get>
BufferAwaiter(B&, Get) -> BufferAwaiter<B, Get>;

}  // namespace detail

/// Reads a value. `co_await buffer` gives a const T&, valid until the buffer is released;
/// `co_await async.read()`, of a temporary buffer, a copy. Throws NotWritten, or the error of the
/// task that was to write the value. A copy of a buffer reads the same epoch.
template <class T>
class ReadBuffer : public BufferBase {
 public:
  explicit ReadBuffer(detail::Value<T>& value)
      : BufferBase(value, *value.begin_read(), Access::read) {}
  ReadBuffer(ReadBuffer&&) noexcept = default;
  ReadBuffer& operator=(ReadBuffer&&) noexcept = default;
  ReadBuffer(const ReadBuffer& other)
      : BufferBase(other.again(), other.epoch_of_queue(), Access::read) {}
  ReadBuffer& operator=(const ReadBuffer& other) { return *this = ReadBuffer(other); }

  auto operator co_await() & {
    return detail::BufferAwaiter{*this,
                                 [](ReadBuffer& buffer) -> const T& { return buffer.get(); }};
  }
  auto operator co_await() && {
    static_assert(std::copy_constructible<T>,
                  "co_await of a temporary buffer copies the value, which this type cannot: keep "
                  "the buffer in a variable and await that");
    return detail::BufferAwaiter{*this, [](ReadBuffer& buffer) -> T { return buffer.get(); }};
  }
  /// Gives a const T*, which is null where nothing was written; throws other errors.
  auto maybe() {
    return detail::BufferAwaiter{*this, [](ReadBuffer& buffer) { return buffer.find(); }};
  }

  /// The value of a buffer that is ready. Throws like co_await.
  const T& get() const {
    if (const T* const found = find()) return *found;
    throw_not_written();
  }
  /// Null where nothing was written.
  const T* find() const {
    check_valid();
    queue().check();
    return value().constructed() && !queue().is_missing() ? &value().get() : nullptr;
  }

 private:
  template <class, class>
  friend struct detail::BufferAwaiter;
  detail::Value<T>& value() const { return static_cast<detail::Value<T>&>(queue()); }
  EpochQueue& again() const {
    check_valid();
    queue().begin_read_again(epoch_of_queue());
    return queue();
  }
};

/// Reads and changes a value: `co_await buffer` gives a T&. Throws like ReadBuffer. A buffer that
/// is dropped leaves the value as it is.
template <class T>
class MutableBuffer : public BufferBase {
 public:
  explicit MutableBuffer(detail::Value<T>& value)
      : BufferBase(value, *value.begin_write(), Access::mutate) {}

  auto operator co_await() & {
    return detail::BufferAwaiter{*this, [](MutableBuffer& buffer) -> T& { return buffer.get(); }};
  }
  /// For one expression: `co_await async.mutate() += 1`.
  auto operator co_await() && { return this->operator co_await(); }

  /// The value of a buffer that is ready. Throws like co_await.
  T& get() {
    check_valid();
    queue().check();
    auto& value = static_cast<detail::Value<T>&>(queue());
    if (!value.constructed() || queue().is_missing()) throw_not_written();
    set_written();
    return value.get();
  }

 private:
  template <class, class>
  friend struct detail::BufferAwaiter;
};

/// Writes a value: `co_await buffer` gives a T& that is to be assigned to, not read, as it may hold
/// what was there before. A value that was never written is made by T{} first, if T has that; else
/// NotWritten is thrown: use EmplaceBuffer. A buffer that is dropped without having been awaited
/// leaves NotWritten to the readers.
template <class T>
class WriteBuffer : public BufferBase {
 public:
  explicit WriteBuffer(detail::Value<T>& value)
      : BufferBase(value, *value.begin_write(), Access::write) {}

  auto operator co_await() & {
    return detail::BufferAwaiter{*this, [](WriteBuffer& buffer) -> T& { return buffer.get(); }};
  }
  /// For one expression: `co_await async.write() = 1`.
  auto operator co_await() && { return this->operator co_await(); }

  /// The value of a buffer that is ready. Throws like co_await.
  T& get() {
    check_valid();
    auto& value = static_cast<detail::Value<T>&>(queue());
    if (!value.constructed()) {
      if constexpr (std::default_initializable<T>)
        value.construct();
      else
        throw_not_written();
    }
    set_written();
    return value.get();
  }
  /// Makes the value anew, in a buffer that is ready.
  template <class... Args>
  void emplace(Args&&... args) {
    check_valid();
    static_cast<detail::Value<T>&>(queue()).construct(std::forward<Args>(args)...);
    set_written();
  }

 private:
  template <class, class>
  friend struct detail::BufferAwaiter;
};

/// Makes a value in its place, also of a type that can't be default-constructed, copied or moved:
/// `co_await std::move(buffer)(args...)`, once, which also releases the buffer.
template <class T>
class EmplaceBuffer : public BufferBase {
 public:
  explicit EmplaceBuffer(detail::Value<T>& value)
      : BufferBase(value, *value.begin_write(), Access::write) {}

  template <class... Args>
    requires std::constructible_from<T, Args...>
  auto operator()(Args&&... args) && {
    return Awaiter<Args...>{std::move(*this), std::forward_as_tuple(std::forward<Args>(args)...)};
  }

 private:
  template <class... Args>
  struct Awaiter {
    EmplaceBuffer buffer;
    std::tuple<Args&&...> args;

    bool await_ready() const {
      buffer.check_valid();
      return buffer.is_ready();
    }
    bool await_suspend(AsyncTask::Handle task) { return buffer.suspend(task.promise()); }
    void await_resume() {
      buffer.resumed();
      std::apply([this](Args&&... all) { buffer.construct(std::forward<Args>(all)...); },
                 std::move(args));
      buffer.release();
    }
  };
  template <class... Args>
  void construct(Args&&... args) {
    static_cast<detail::Value<T>&>(queue()).construct(std::forward<Args>(args)...);
    set_written();
  }
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
