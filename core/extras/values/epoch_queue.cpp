// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/epoch_queue.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/extras/values/recorder.hpp"

namespace capstan::values {

namespace detail {

std::uint64_t next_index() {
  constexpr std::uint64_t block = 256;
  static std::atomic<std::uint64_t> blocks{0};
  thread_local std::uint64_t next = 0;
  if (next % block == 0) next = blocks.fetch_add(1, std::memory_order_relaxed) * block;
  return ++next;
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name{
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free};
  return name ? name.get() : type.name();
}

}  // namespace detail

EpochQueue::Garbage::~Garbage() {
  while (epochs) delete std::exchange(epochs, epochs->next);
}

EpochQueue::EpochQueue(const std::type_info& type)
    : front_(&first_), back_(&first_), type_(type), index_(detail::next_index()) {
  first_.phase.store(Epoch::Phase::readable, std::memory_order_relaxed);
}

EpochQueue::~EpochQueue() {
  for (Epoch* epoch : {front_, spare_})
    if (epoch != &first_) delete epoch;
}

void EpochQueue::add_user() {
  const std::scoped_lock lock{lock_};
  ++users_;
}

void EpochQueue::drop_user() {
  bool last;
  {
    const std::scoped_lock lock{lock_};
    last = is_last_user();
  }
  if (last) delete this;
}

EpochQueue::Epoch* EpochQueue::begin_read() {
  const std::scoped_lock lock{lock_};
  ++users_;
  ++back_->reading;
  return back_;
}

void EpochQueue::begin_read_again(Epoch& epoch) {
  const std::scoped_lock lock{lock_};
  ++users_;
  ++epoch.reading;
}

EpochQueue::Epoch* EpochQueue::begin_write() {
  const std::scoped_lock lock{lock_};
  ++users_;
  // settle() leaves no successor to an epoch that is over: then the epoch is the only one.
  if (front_->reading == 0 && front_ == back_ && is_ready(*front_, Access::read)) {
    ++front_->number;
    front_->released = false;
    front_->phase.store(Epoch::Phase::writable, std::memory_order_relaxed);
    return front_;
  }
  Epoch* const epoch = take_epoch();
  epoch->number = back_->number + 1;
  back_->next = epoch;
  return back_ = epoch;
}

bool EpochQueue::wait(Epoch& epoch, Access access, Waiter& waiter) {
  const std::scoped_lock lock{lock_};
  if (is_ready(epoch, access)) return false;
  if (access == Access::read)
    waiter.next = std::exchange(epoch.readers, &waiter);
  else
    epoch.writer = &waiter;
  return true;
}

void EpochQueue::forget(Epoch& epoch, const Waiter* waiter) {
  if (!waiter) return;
  if (epoch.writer == waiter) epoch.writer = nullptr;
  Waiter** at = &epoch.readers;
  while (*at && *at != waiter) at = &(*at)->next;
  if (*at) *at = waiter->next;
}

void EpochQueue::stop_waiting(Epoch& epoch, const Waiter& waiter) {
  const std::scoped_lock lock{lock_};
  forget(epoch, &waiter);
}

void EpochQueue::end_read(Epoch& epoch, const Waiter* waiter) {
  Garbage garbage;
  bool last;
  {
    const std::scoped_lock lock{lock_};
    forget(epoch, waiter);
    --epoch.reading;
    settle(garbage);
    last = is_last_user();
  }
  if (last) delete this;
}

void EpochQueue::end_write(Epoch& epoch, const Waiter* waiter, Outcome outcome,
                           std::exception_ptr error) {
  Garbage garbage;
  bool last;
  {
    const std::scoped_lock lock{lock_};
    forget(epoch, waiter);
    epoch.error = std::move(error);
    epoch.outcome = outcome;
    epoch.released = true;
    if (&epoch == front_) open(epoch, garbage);
    settle(garbage);
    last = is_last_user();
  }
  if (last) delete this;
}

/// The writer is done: its readers begin.
void EpochQueue::open(Epoch& epoch, Garbage& garbage) {
  if (epoch.outcome != Outcome::unchanged) {
    std::swap(error_, epoch.error);
    missing_ = epoch.outcome == Outcome::dropped;
    if (epoch.error) garbage.errors.push_back(std::exchange(epoch.error, nullptr));
  }
  epoch.phase.store(Epoch::Phase::readable, std::memory_order_release);
  detail::record_epoch(*this, epoch.number);
  Waiter* in_order = nullptr;
  while (Waiter* const waiter = epoch.readers) {
    epoch.readers = waiter->next;
    waiter->next = std::exchange(in_order, waiter);
  }
  while (Waiter* const waiter = in_order) {
    in_order = waiter->next;
    waiter->wake(*waiter);
  }
}

/// Goes on to the next epoch while one is over.
void EpochQueue::settle(Garbage& garbage) {
  while (front_->reading == 0 && front_->next && is_ready(*front_, Access::read)) {
    Epoch* const over = std::exchange(front_, front_->next);
    retire(over, garbage);
    if (front_->released) {
      open(*front_, garbage);
      continue;
    }
    front_->phase.store(Epoch::Phase::writable, std::memory_order_release);
    if (Waiter* const writer = std::exchange(front_->writer, nullptr)) writer->wake(*writer);
  }
}

void EpochQueue::retire(Epoch* epoch, Garbage& garbage) {
  if (!spare_ || epoch == &first_) std::swap(epoch, spare_);
  if (!epoch) return;
  epoch->next = std::exchange(garbage.epochs, epoch);
}

EpochQueue::Epoch* EpochQueue::take_epoch() {
  if (!spare_) return new Epoch;
  Epoch* const epoch = std::exchange(spare_, nullptr);
  epoch->next = nullptr;
  epoch->released = false;
  epoch->phase.store(Epoch::Phase::pending, std::memory_order_relaxed);
  return epoch;
}

std::string EpochQueue::describe() const {
  return fmt::format("value {} ({})", index_, detail::type_name(type_));
}

std::string EpochQueue::describe(const Epoch& epoch) {
  const std::scoped_lock lock{lock_};
  const char* const state = is_ready(epoch, Access::read)    ? "is written"
                            : is_ready(epoch, Access::write) ? "may be written"
                                                             : "has not begun";
  return fmt::format("epoch {} of {}, which {} and has {} readers", epoch.number, describe(), state,
                     epoch.reading);
}

}  // namespace capstan::values
