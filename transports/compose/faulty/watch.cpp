#include "transports/compose/faulty/watch.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "core/net/system_call.hpp"

namespace capstan::faults {
namespace {

constexpr std::string_view remedy = "raise ulimit -n";

}  // namespace

Watch::Watch(int other)
    : nudged_(checked(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd", remedy)),
      both_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1", remedy)) {
  for (const int descriptor : {other, nudged_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    checked(::epoll_ctl(both_.get(), EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
  }
}

void Watch::nudge() {
  ::eventfd_write(nudged_.get(), 1);
}

void Watch::calm() {
  eventfd_t nudges = 0;
  ::eventfd_read(nudged_.get(), &nudges);
}

}  // namespace capstan::faults
