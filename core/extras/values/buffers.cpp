// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/buffers.hpp"

#include <fmt/format.h>

#include "core/extras/values/current.hpp"
#include "core/extras/values/recorder.hpp"

namespace capstan::values {

using detail::Outcome;

BufferBase& BufferBase::operator=(BufferBase&& other) noexcept {
  if (this == &other) return *this;
  if (queue_) release();
  queue_ = std::exchange(other.queue_, nullptr);
  epoch_ = other.epoch_;
  waiter_ = std::exchange(other.waiter_, nullptr);
  access_ = other.access_;
  written_ = other.written_;
  return *this;
}

bool BufferBase::suspend(TaskPromise& task) {
  waiter_ = &task.root();
  if (task.suspend(queue_, epoch_, access_, [this](detail::Waiter& waiter) {
        return queue_->wait(*epoch_, access_, waiter);
      }))
    return true;
  waiter_ = nullptr;
  return false;
}

void BufferBase::resumed() {
  waiter_ = nullptr;
  if (detail::Recorder* const active = detail::recording()) [[unlikely]]
    active->access(detail::current().task ? detail::current().task->index() : 0, *queue_,
                   epoch_->number, access_ == Access::read);
}

void BufferBase::release() noexcept {
  if (!queue_) return;
  detail::Current& current = detail::current();
  // A buffer that is dropped by an exception must not pass for written. The exception is not known
  // here: the task learns it when it catches it, or ends.
  if (access_ != Access::read && std::uncaught_exceptions() > 0 && current.task && !current.cause) {
    TaskPromise& task = *current.task->leaf_;
    task.dropped_.push_back({queue_, epoch_, waiter_});
    queue_ = nullptr;
    return;
  }
  if (current.cause) current.cause->received |= access_ != Access::read;
  release(current.cause ? &current.cause->error : nullptr);
}

void BufferBase::release(const std::exception_ptr* error) noexcept {
  EpochQueue* const queue = std::exchange(queue_, nullptr);
  if (!queue) return;
  if (access_ == Access::read) return queue->end_read(*epoch_, waiter_);
  if (error) return queue->end_write(*epoch_, waiter_, Outcome::failed, *error);
  const Outcome unwritten = access_ == Access::write ? Outcome::dropped : Outcome::unchanged;
  queue->end_write(*epoch_, waiter_, written_ ? Outcome::written : unwritten);
}

std::string BufferBase::describe() const {
  if (!queue_) return "a released buffer";
  return fmt::format("{} of {}", access_ == Access::read ? "read" : "write",
                     queue_->describe(*epoch_));
}

void BufferBase::throw_not_written() const {
  throw NotWritten(fmt::format(
      "{} has no value in epoch {}: nothing was written before the access, or the buffer or task "
      "that was to write it was dropped. Write it first; a type without default constructor is "
      "written by emplace()",
      queue_->describe(), epoch_->number));
}

void BufferBase::throw_released() const {
  throw InvalidArgument(
      "a buffer was used that has been released or moved from: make a new one with read(), "
      "write(), "
      "mutate() or emplace()");
}

}  // namespace capstan::values
