#include "transports/tcp/poller.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "core/net/system_call.hpp"
#include "core/net/wait_readable.hpp"
#include "transports/tcp/socket.hpp"

namespace capstan::tcp {
namespace {

constexpr Poller::Tag timer_tag{.kind = ~std::uint32_t{0}, .id = 0};

}  // namespace

Poller::Poller()
    : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1", descriptor_remedy)),
      timer_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                     "timerfd_create", descriptor_remedy)) {
  add(timer_.get(), timer_tag, true, false);
}

void Poller::control(int operation, int fd, Tag tag, bool input, bool output) {
  epoll_event event{};
  event.events = (input ? EPOLLIN : 0U) | (output ? EPOLLOUT : 0U);
  event.data.u64 = std::bit_cast<std::uint64_t>(tag);
  checked(::epoll_ctl(epoll_.get(), operation, fd, &event), "epoll_ctl");
}

void Poller::add(int fd, Tag tag, bool input, bool output) {
  control(EPOLL_CTL_ADD, fd, tag, input, output);
}

void Poller::modify(int fd, Tag tag, bool input, bool output) {
  control(EPOLL_CTL_MOD, fd, tag, input, output);
}

void Poller::remove(int fd) {
  control(EPOLL_CTL_DEL, fd, {}, false, false);
}

void Poller::alarm(Deadline when) {
  if (when.when() == armed_.when()) return;
  itimerspec setting{};
  if (!when.is_never()) {
    // All zeros would disarm it.
    const auto left =
        std::max<std::chrono::nanoseconds>(when.remaining(), std::chrono::nanoseconds{1});
    setting.it_value = to_timespec(left);
  }
  armed_ = when;
  checked(::timerfd_settime(timer_.get(), 0, &setting, nullptr), "timerfd_settime");
}

std::span<const Poller::Event> Poller::wait(int timeout) {
  const int count =
      ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), timeout);
  std::size_t kept = 0;
  for (const epoll_event& event :
       std::span{ready_}.first(static_cast<std::size_t>(std::max(count, 0)))) {
    const auto tag = std::bit_cast<Tag>(event.data.u64);
    if (tag.kind == timer_tag.kind) {
      std::uint64_t times;
      static_cast<void>(!::read(timer_.get(), &times, sizeof(times)));
      armed_ = Deadline::never();
      continue;
    }
    events_[kept++] = {tag, (event.events & ~std::uint32_t{EPOLLOUT}) != 0,
                       (event.events & EPOLLOUT) != 0};
  }
  return std::span{events_}.first(kept);
}

}  // namespace capstan::tcp
