// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/platform/net/socket.hpp"

namespace capstan {

/// Somebody on the wire: passes on what goes to and from a listener, keeps a record of it, and may
/// change it. Connects to `target` for each connection that comes. Ends with its destructor.
class Relay {
 public:
  /// Which way bytes go.
  enum Way : int { forth, back };
  using Change = std::function<void(Way, std::vector<std::byte>&)>;

  explicit Relay(SocketEndpoint target, Change change = {})
      : target_(std::move(target)),
        change_(std::move(change)),
        listener_(listen_on(TcpEndpoint{})),
        endpoint_(local_address(listener_).endpoint()),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  const SocketEndpoint& endpoint() const { return endpoint_; }

  /// All that has passed so far.
  std::string record() const {
    const std::lock_guard lock{mutex_};
    return record_;
  }
  /// The bytes that have passed one way, by connections.
  std::vector<std::string> records(Way way) const {
    const std::lock_guard lock{mutex_};
    return records_[way];
  }

 private:
  struct Line {
    FileDescriptor ends[2];  // who came, and the target
    std::size_t number;
  };

  void run(const std::stop_token& stop) {
    std::vector<Line> lines;
    while (!stop.stop_requested()) {
      std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
      for (const Line& line : lines)
        for (const FileDescriptor& end : line.ends) polled.push_back({end.get(), POLLIN, 0});
      if (::poll(polled.data(), polled.size(), 5) <= 0) continue;
      for (std::size_t i = lines.size(); i-- > 0;)
        if ((polled[2 * i + 1].revents && !pass_on(lines[i], forth)) ||
            (polled[2 * i + 2].revents && !pass_on(lines[i], back)))
          lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
      if (polled[0].revents) accept(lines);
    }
  }

  void accept(std::vector<Line>& lines) {
    Accepted accepted = accept_from(listener_);
    if (!accepted.socket.valid()) return;
    Connected connected =
        connect_to(resolve(target_).front(), Deadline::in(std::chrono::seconds{10}));
    if (!connected.socket.valid()) return;
    const std::lock_guard lock{mutex_};
    lines.push_back(
        {{std::move(accepted.socket), std::move(connected.socket)}, records_[0].size()});
    for (auto& all : records_) all.emplace_back();
  }

  /// False when the line is cut.
  bool pass_on(Line& line, Way way) {
    std::vector<std::byte> bytes(64 * 1024);
    const ssize_t got = receive_some(line.ends[way], bytes);
    if (got < 0 && would_block(errno)) return true;
    if (got <= 0) return false;
    bytes.resize(static_cast<std::size_t>(got));
    {
      const std::lock_guard lock{mutex_};
      const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      record_ += text;
      records_[way][line.number] += text;
    }
    if (change_) change_(way, bytes);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = send_some(line.ends[1 - way], std::span{bytes}.subspan(sent));
      if (count < 0 && !would_block(errno)) return false;
      if (count > 0)
        sent += static_cast<std::size_t>(count);
      else if (!wait_for(line.ends[1 - way], POLLOUT, Deadline::in(std::chrono::seconds{10})))
        return false;
    }
    return true;
  }

  SocketEndpoint target_;
  Change change_;
  FileDescriptor listener_;
  SocketEndpoint endpoint_;
  mutable std::mutex mutex_;
  std::string record_;
  std::array<std::vector<std::string>, 2> records_;
  std::jthread thread_;
};

}  // namespace capstan
