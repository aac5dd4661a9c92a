#include "transports/posted/bell.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <ctime>

#include "transports/system_call.hpp"

namespace capstan::posted {

using namespace std::chrono_literals;

Bell::Bell()
    : event_(checked(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd", "raise ulimit -n")) {}

void Bell::ring() {
  const std::lock_guard lock{mutex_};
  if (!armed_) return;
  armed_ = false;
  ::eventfd_write(event_.get(), 1);
}

void Bell::prepare() {
  cancel();
  const std::lock_guard lock{mutex_};
  armed_ = true;
}

void Bell::sleep(std::chrono::nanoseconds at_most) {
  at_most = std::max(at_most, 0ns);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  pollfd entry{.fd = event_.get(), .events = POLLIN, .revents = 0};
  ::ppoll(&entry, 1, &timeout, nullptr);
  cancel();
}

void Bell::cancel() {
  const std::lock_guard lock{mutex_};
  armed_ = false;
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

}  // namespace capstan::posted
