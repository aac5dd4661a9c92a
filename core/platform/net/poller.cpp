// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/poller.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "core/platform/net/system_call.hpp"
#include "core/platform/net/wait_readable.hpp"

namespace capstan {
namespace {

constexpr Poller::Tag timer_tag{.kind = ~std::uint32_t{0}, .id = 0};

}  // namespace

Poller::Poller() : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}

Poller Poller::with_alarm() {
  Poller poller;
  poller.timer_ = FileDescriptor{
      checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")};
  poller.add(poller.timer_.get(), timer_tag, input);
  return poller;
}

void Poller::control(int operation, int fd, Tag tag, std::uint32_t interests) {
  epoll_event event{};
  event.events = interests;
  event.data.u64 = std::bit_cast<std::uint64_t>(tag);
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) == 0) return;
  throw_errno("epoll_ctl", errno == ENOSPC ? "raise fs.epoll.max_user_watches" : "");
}

void Poller::add(int fd, Tag tag, std::uint32_t interests) {
  control(EPOLL_CTL_ADD, fd, tag, interests);
}

void Poller::modify(int fd, Tag tag, std::uint32_t interests) {
  control(EPOLL_CTL_MOD, fd, tag, interests);
}

void Poller::remove(int fd) {
  control(EPOLL_CTL_DEL, fd, {}, nothing);
}

void Poller::alarm(Deadline when) {
  if (when.when() == armed_.when()) return;
  itimerspec setting{};
  if (!when.is_never()) {
    // All zeros would disarm the timer.
    const auto left =
        std::max<std::chrono::nanoseconds>(when.remaining(), std::chrono::nanoseconds{1});
    setting.it_value = to_timespec(left);
  }
  armed_ = when;
  checked(::timerfd_settime(timer_.get(), 0, &setting, nullptr), "timerfd_settime");
}

std::span<const Poller::Event> Poller::wait(int milliseconds) {
  std::array<epoll_event, std::tuple_size_v<decltype(events_)>> ready;
  const int count =
      ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), milliseconds);
  std::size_t reported = 0;
  for (const epoll_event& event :
       std::span{ready}.first(static_cast<std::size_t>(std::max(count, 0)))) {
    // A copy: epoll_event is packed, so no reference may bind to its 64-bit member.
    const std::uint64_t data = event.data.u64;
    const auto tag = std::bit_cast<Tag>(data);
    if (tag.kind == timer_tag.kind) {
      std::uint64_t expirations;
      static_cast<void>(!::read(timer_.get(), &expirations, sizeof expirations));
      armed_ = Deadline::never();
      continue;
    }
    events_[reported++] = {.tag = tag,
                           .readable = (event.events & EPOLLIN) != 0,
                           .writable = (event.events & EPOLLOUT) != 0,
                           .peer_closed = (event.events & EPOLLRDHUP) != 0,
                           .ended = (event.events & (EPOLLERR | EPOLLHUP)) != 0};
  }
  return std::span{events_}.first(reported);
}

}  // namespace capstan
