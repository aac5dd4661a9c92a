#include "transports/ofi/sleeper.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "core/net/system_call.hpp"
#include "core/net/wait_readable.hpp"

namespace capstan::ofi {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view no_descriptors = "raise ulimit -n if descriptors ran out";

void watch(int events, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  checked(::epoll_ctl(events, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

}  // namespace

Sleeper::Sleeper(int watched)
    : events_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1", no_descriptors)),
      timer_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                     "timerfd_create", no_descriptors)) {
  watch(events_.get(), timer_.get());
  if (watched >= 0) watch(events_.get(), watched);
}

void Sleeper::set(std::chrono::nanoseconds in) {
  itimerspec when{};
  when.it_value = to_timespec(in);
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Sleeper::set_alarm(std::chrono::nanoseconds in) {
  set(std::max<std::chrono::nanoseconds>(in, 1ns));  // zero would disarm it
  alarm_ = true;
}

void Sleeper::clear_alarm() {
  if (alarm_) set(0ns);
  alarm_ = false;
}

void Sleeper::sleep(std::chrono::nanoseconds at_most) {
  if (at_most > 0ns) wait_readable({events_.get()}, at_most);
}

}  // namespace capstan::ofi
