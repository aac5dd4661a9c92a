// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/fake_streams.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/devices/fake_device.hpp"

namespace capstan::fake {

Streams& streams() {
  static auto& all = *new Streams;
  return all;
}

Stream* Streams::make(void* context, int device) {
  const std::lock_guard lock{mutex_};
  start_worker();
  return streams_.emplace_back(new Stream{context, device}).get();
}

void Streams::put(Stream* stream, Command command) {
  await_driver();
  {
    const std::lock_guard lock{mutex_};
    stream->commands.push_back(std::move(command));
  }
  changed_.notify_all();
}

void Streams::await_driver() {
  const std::shared_lock lock{alone_};
}

int Streams::synchronize_alone(Stream* stream) {
  const std::unique_lock lock{alone_};
  return synchronize(stream);
}

int Streams::query(Stream* stream) {
  await_driver();
  const std::lock_guard lock{mutex_};
  if (lost != 0) return lost;
  if (stream->error != 0) return stream->error;
  return stream->commands.empty() ? success : not_ready;
}

int Streams::synchronize(Stream* stream) {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return stream->commands.empty() || lost != 0; });
  return lost != 0 ? lost.load() : stream->error.load();
}

void Streams::drain() {
  if (!has_hung) return;
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, std::chrono::seconds{1}, [&] {
    return hang || lost != 0 ||
           std::ranges::all_of(streams_, [](const auto& each) { return each->commands.empty(); });
  });
}

void Streams::await_untouched(const void* begin, std::size_t size) {
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  const auto is_free = [&](const Command& command) {
    const auto at = reinterpret_cast<std::uintptr_t>(command.touches);
    return at < from || at >= from + size;
  };
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, std::chrono::seconds{5}, [&] {
    return hang || lost != 0 || std::ranges::all_of(streams_, [&](const auto& each) {
             return std::ranges::all_of(each->commands, is_free);
           });
  });
}

Event* Streams::make_event(bool timed) {
  const std::lock_guard lock{mutex_};
  return events_.emplace_back(new Event{.timed = timed}).get();
}

void Streams::record(Event* event, Stream* stream) {
  {
    const std::lock_guard lock{mutex_};
    stream->commands.push_back({.done = [event, number = ++event->recorded] {
      event->come = number;
      event->last_came = std::chrono::steady_clock::now();
    }});
  }
  changed_.notify_all();
}

void Streams::wait_for_event(Stream* stream, Event* event) {
  {
    const std::lock_guard lock{mutex_};
    stream->commands.push_back(
        {.ready = [event, number = event->recorded] { return event->come >= number; }});
  }
  changed_.notify_all();
}

int Streams::query(Event* event) {
  await_driver();
  const std::lock_guard lock{mutex_};
  if (lost != 0) return lost;
  return event->come >= event->recorded ? success : not_ready;
}

int Streams::elapsed(Event* from, Event* to, float& milliseconds) {
  if (!from->timed || !to->timed) return invalid_value;
  if (const int state = query(from)) return state;
  if (const int state = query(to)) return state;
  const std::lock_guard lock{mutex_};
  milliseconds = std::chrono::duration<float, std::milli>{to->last_came - from->last_came}.count();
  return success;
}

void Streams::wait_for_flag(Stream* stream, const std::uint32_t* flag, std::uint32_t value) {
  put(stream,
      {.ready = [flag, value] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) >= value; }});
}

void Streams::raise_word(Stream* stream, std::uint32_t* word, std::uint32_t value) {
  put(stream, {.action = [word, value] { __atomic_store_n(word, value, __ATOMIC_RELEASE); }});
}

void Streams::start_worker() {
  if (std::exchange(working_, true)) return;
  std::thread{[this] { work(); }}.detach();
}

void Streams::work() {
  using namespace std::chrono_literals;
  for (;;) {
    std::this_thread::sleep_for(50us);
    if (!hang && lost == 0 && run_one()) continue;
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, 1ms);  // flags in host memory change without notice
  }
}

/// Runs the first command of a random stream whose first command is ready.
bool Streams::run_one() {
  Stream* chosen = nullptr;
  const Command* command = nullptr;  // only who runs it removes it
  {
    const std::lock_guard lock{mutex_};
    std::vector<Stream*> ready;
    for (const auto& stream : streams_)
      if (!stream->runs && !stream->commands.empty() &&
          (!stream->commands.front().ready || stream->commands.front().ready()))
        ready.push_back(stream.get());
    if (ready.empty()) return false;
    chosen = ready[random_() % ready.size()];
    command = &chosen->commands.front();
    chosen->runs = command->beside;
  }
  if (command->beside)
    std::thread{[this, chosen, command] { run(chosen, *command); }}.detach();
  else
    run(chosen, *command);
  return true;
}

void Streams::run(Stream* stream, const Command& command) {
  if (command.action) command.action();
  {
    const std::lock_guard lock{mutex_};
    if (command.done) command.done();
    stream->commands.pop_front();
    stream->runs = false;
  }
  changed_.notify_all();
}

}  // namespace capstan::fake
