// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/listener.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

constexpr int most_at_once = 64;
constexpr auto pause_time = std::chrono::milliseconds{100};

}  // namespace

std::size_t most_strangers(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min<std::size_t>(wanted, std::max<std::size_t>(limit.rlim_cur / 8, 16));
}

void Listener::watch(bool on) {
  if (on == watched_) return;
  watched_ = on;
  on ? poller_->add(socket_.get(), tag_, Poller::input) : poller_->remove(socket_.get());
}

void Listener::start() {
  watch(true);
}

void Listener::close() {
  if (!open()) return;
  watch(false);
  socket_.reset();
  paused_until_ = Deadline::never();
}

void Listener::accept_all(const std::function<void(Accepted)>& admit,
                          const std::function<void(const std::string&)>& warn) {
  for (int i = 0; i < most_at_once && watched_; ++i) {
    Accepted accepted = accept_from(socket_);
    if (accepted.socket.valid()) {
      admit(std::move(accepted));
    } else if (would_block(accepted.error)) {
      return;
    } else if (out_of_resources(accepted.error)) {
      warn(fmt::format("{}: {}", error_text(accepted.error), limit_behind(accepted.error)));
      watch(false);
      paused_until_ = Deadline::in(pause_time);
    }  // otherwise a client gave up, or a signal came: another connection may wait
  }
}

Deadline Listener::resume() {
  if (paused_until_.expired()) {
    paused_until_ = Deadline::never();
    watch(true);
  }
  return paused_until_;
}

}  // namespace capstan
