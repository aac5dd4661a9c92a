// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/cudart/stream.hpp"

#include <thread>
#include <utility>

namespace capstan::cudart {
namespace {

thread_local bool on_stream = false;

}  // namespace

void Moment::pass() {
  const std::scoped_lock lock{mutex_};
  passed_ = true;
  when_ = Clock::now();
  changed_.notify_all();
}

bool Moment::passed() const {
  const std::scoped_lock lock{mutex_};
  return passed_;
}

void Moment::wait() const {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return passed_; });
}

Moment::Clock::time_point Moment::when() const {
  const std::scoped_lock lock{mutex_};
  return when_;
}

void Stream::put(Work work, std::shared_ptr<Moment> after) {
  const std::scoped_lock lock{mutex_};
  append({std::move(work), std::move(after)});
}

void Stream::append(Entry entry) {
  if (!std::exchange(has_thread_, true))
    std::thread{[self = shared_from_this()] { self->run(); }}.detach();
  works_.push_back(std::move(entry));
  changed_.notify_all();
}

std::shared_ptr<Moment> Stream::mark() {
  const std::scoped_lock lock{mutex_};
  if (works_.empty()) return nullptr;
  auto moment = std::make_shared<Moment>();
  append({[] {}, moment});
  return moment;
}

bool Stream::idle() const {
  const std::scoped_lock lock{mutex_};
  return works_.empty();
}

void Stream::close() {
  const std::scoped_lock lock{mutex_};
  closed_ = true;
  changed_.notify_all();
}

bool Stream::closed() const {
  const std::scoped_lock lock{mutex_};
  return closed_;
}

void Stream::fail(cudaError_t error) {
  const std::scoped_lock lock{mutex_};
  if (failure_ == cudaSuccess) failure_ = error;
}

cudaError_t Stream::take_failure() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(failure_, cudaSuccess);
}

bool Stream::runs_this_thread() {
  return on_stream;
}

void Stream::run() {
  on_stream = true;
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [&] { return !works_.empty() || closed_; });
    if (works_.empty()) return;
    Work work = std::exchange(works_.front().work, nullptr);
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before the stream says that it is idle
    lock.lock();
    const auto after = std::move(works_.front().after);
    works_.pop_front();
    if (after) after->pass();  // who waited for it finds the stream idle
  }
}

}  // namespace capstan::cudart
