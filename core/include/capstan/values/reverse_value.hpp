// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/values/async.hpp"
#include "capstan/values/when_all.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// A value whose time runs backwards: what is read is what the program writes further on. So
/// results can be used, by tasks, before it is said how they are computed, as gradients are.
///
///   ReverseValue<double> gradient;
///   schedule(consume(gradient.read()));     // waits
///   schedule(produce(gradient.write()));    // what all reads before it get
///
/// A read after the last write finds nothing written: readers get NotWritten, once the value is
/// closed. Moving one is cheap. One thread at a time may use it.
template <class T>
class ReverseValue {
 public:
  ReverseValue() {
    pending_ = begin();
    result_ = now_;
  }
  ReverseValue(ReverseValue&&) noexcept = default;
  ReverseValue& operator=(ReverseValue&&) noexcept = default;
  ReverseValue(const ReverseValue&) = delete;
  ReverseValue& operator=(const ReverseValue&) = delete;
  ~ReverseValue() = default;

  /// To read what the program writes next.
  ReadBuffer<T> read() const { return *now_; }
  /// For what the program has read since the last write. Throws InvalidArgument when it is closed.
  WriteBuffer<T> write() { return turn(); }

  /// To change a value that comes from further on, and hand it to earlier reads: a sum, to which
  /// each use adds. `later` is not written where nothing further on writes: see
  /// ReadBuffer::maybe().
  struct Step {
    ReadBuffer<T> later;
    WriteBuffer<T> out;
  };
  Step accumulate() {
    WriteBuffer<T> out = turn();
    return {*now_, std::move(out)};
  }

  /// Writes a plain value.
  template <class U>
    requires std::convertible_to<U, T>
  void set(U&& value) {
    schedule(set_task(write(), std::forward<U>(value)));
  }

  /// Nothing is written any more.
  void close() { pending_.reset(); }
  bool is_closed() const { return !pending_; }
  /// To read what the first reads get: the end of the reverse time.
  ReadBuffer<T> result() const { return *result_; }
  /// Closes it, and waits for the result, like Async::get_wait().
  T get_wait() { return get_wait(current_scheduler()); }
  T get_wait(Scheduler& scheduler) {
    close();
    ReadBuffer<T> buffer = result();
    scheduler.wait(buffer);
    return buffer.get();
  }
  /// Closes it, and gives the result as a value of its own.
  Async<T> to_async() {
    close();
    Async<T> value;
    schedule(detail::copy_task(result(), value.emplace()));
    return value;
  }

 private:
  static AsyncTask set_task(WriteBuffer<T> out, T value) {
    co_await when_all(out);
    out.emplace(std::move(value));
  }
  /// The next value further on.
  WriteBuffer<T> begin() {
    Async<T> next;
    WriteBuffer<T> out = next.write();
    now_ = next.read();
    return out;
  }
  /// The buffer of the present write; the next write gets a buffer of its own.
  WriteBuffer<T> turn() {
    if (!pending_)
      throw InvalidArgument(
          "a reverse value was written after it had been closed, by close(), get_wait(), "
          "to_async() or backward(): write it before");
    return std::exchange(*pending_, begin());
  }

  std::optional<WriteBuffer<T>> pending_;
  std::optional<ReadBuffer<T>> now_;
  std::optional<ReadBuffer<T>> result_;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
