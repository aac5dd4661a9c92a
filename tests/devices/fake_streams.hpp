// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <vector>

namespace capstan::fake {

/// An event: recorded so often, and come so often.
struct Event {
  bool timed = false;
  std::uint64_t recorded = 0, come = 0;
  std::chrono::steady_clock::time_point last_came{};
};

/// An entry of a stream: the worker checks its condition, and runs its action once that holds. An
/// action that waits for those of other streams runs on a thread of its own, beside them.
struct Command {
  std::function<bool()> ready{};   ///< under the lock
  std::function<void()> action{};  ///< without the lock, as a device runs beside the host
  std::function<void()> done{};    ///< under the lock
  bool beside = false;
  const void* touches = nullptr;  ///< memory that must not be released before
};

/// The place of a stream, and what is in it.
struct Stream {
  void* context = nullptr;
  int device = 0;
  std::deque<Command> commands{};
  bool runs = false;           ///< the first command does, on a thread of its own
  std::atomic<int> error = 0;  ///< of a command; all later queries return it
};

/// Streams of the devices. One worker runs the commands of each stream in order, and those of
/// different streams in random order, a while after they were put there: whoever does not wait gets
/// nothing. Thread-safe.
class Streams {
 public:
  Stream* make(void* context, int device);
  void put(Stream* stream, Command command);
  /// 0, not_ready, or the stream's error.
  int query(Stream* stream);
  /// Waits until a stream is empty.
  int synchronize(Stream* stream);

  /// Waits until a stream is empty, and lets nobody ask anything meanwhile: as drivers do while
  /// they copy pageable memory.
  int synchronize_alone(Stream* stream);

  /// Waits until all streams are empty, as drivers do before memory is freed: up to a second, and
  /// not while devices hang or are lost. Only after a hang are copies left that nobody waits for.
  void drain();

  /// Waits until nothing in a stream touches memory in this range: a few seconds at most.
  void await_untouched(const void* begin, std::size_t size);

  Event* make_event(bool timed);
  void record(Event* event, Stream* stream);
  void wait_for_event(Stream* stream, Event* event);
  int query(Event* event);
  int elapsed(Event* from, Event* to, float& milliseconds);
  void raise_word(Stream* stream, std::uint32_t* word, std::uint32_t value);
  void wait_for_flag(Stream* stream, const std::uint32_t* flag, std::uint32_t value);

  /// No command runs as long as this is set.
  std::atomic<bool> hang = false, has_hung = false;
  /// The error of all streams and events from now on: a lost device.
  std::atomic<int> lost = 0;

 private:
  void start_worker();
  [[noreturn]] void work();
  bool run_one();
  void run(Stream* stream, const Command& command);

  void await_driver();

  std::mutex mutex_;
  std::shared_mutex alone_;
  std::condition_variable changed_;
  bool working_ = false;
  std::mt19937 random_{1};
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
};

Streams& streams();

}  // namespace capstan::fake
