#include "core/launcher/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
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

void LineForwarder::take(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      partial_ += text;
      if (partial_.size() <= longest_line) break;
      write_line(partial_);
      partial_.clear();
      break;
    }
    write_line(partial_.append(text.substr(0, end)));
    partial_.clear();
    text.remove_prefix(end + 1);
  }
  flush();
}

void LineForwarder::finish() {
  if (!partial_.empty()) write_line(partial_);
  partial_.clear();
  flush();
}

void LineForwarder::write_line(std::string_view line) {
  ready_.append(prefix_).append(line).push_back('\n');
}

void LineForwarder::flush() {
  if (!write_all(out_, ready_) && error_ == 0) error_ = errno;
  ready_.clear();
}

}  // namespace capstan::launcher
