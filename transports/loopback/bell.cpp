#include "transports/loopback/bell.hpp"

#include <sys/eventfd.h>

#include "core/net/system_call.hpp"
#include "core/net/wait_readable.hpp"

namespace capstan::loopback {

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
  wait_readable({event_.get()}, at_most);
  cancel();
}

void Bell::cancel() {
  const std::lock_guard lock{mutex_};
  armed_ = false;
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

}  // namespace capstan::loopback
