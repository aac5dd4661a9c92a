// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace capstan::launcher {
namespace {

constexpr std::size_t longest_line = 1 << 20;  // output without line ends does not fill the memory

}  // namespace

bool write_all(int out, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(out, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{out, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void Outlet::add(std::string_view text) {
  if (!given_up_) pending_ += text;
  write_some();
}

/// poll(2) says that a pipe has room for so many bytes at least; the stream is not made
/// non-blocking, as other programs may share it.
void Outlet::write_some() {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    pollfd room{fd_, POLLOUT, 0};
    if (::poll(&room, 1, 0) <= 0) break;
    const ssize_t written = ::write(fd_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (written <= 0) {
      if (error_ == 0) error_ = errno;
      rest = {};
    } else {
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void Outlet::write_rest() {
  for (; !pending_.empty(); write_some()) {
    pollfd room = watch();
    ::poll(&room, 1, -1);
  }
}

void Outlet::give_up() {
  given_up_ = true;
  pending_.clear();
}

void LineForwarder::take(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      partial_ += text;
      if (partial_.size() <= longest_line) break;
      add_line(partial_);
      partial_.clear();
      break;
    }
    add_line(partial_.append(text.substr(0, end)));
    partial_.clear();
    text.remove_prefix(end + 1);
  }
  out_.add(std::exchange(ready_, {}));
}

void LineForwarder::finish() {
  if (!partial_.empty()) add_line(partial_);
  partial_.clear();
  out_.add(std::exchange(ready_, {}));
}

void LineForwarder::add_line(std::string_view line) {
  ready_.append(prefix_).append(line).push_back('\n');
}

}  // namespace capstan::launcher
