// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace capstan {

/// A port of 127.0.0.1 that nobody listens at. It lies below those that systems give to whoever
/// asks for any, so that no connection takes it in the meantime, and differs between processes.
inline std::uint16_t free_port() {
  constexpr int first = 10'000, count = 20'000, tries = 1'000;
  static int last = static_cast<int>(::getpid());
  for (int i = 0; i < tries; ++i) {
    last += 7;
    const auto port = static_cast<std::uint16_t>(first + last % count);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_free = ::bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(probe);
    if (is_free) return port;
  }
  throw std::runtime_error("no port is free");
}

}  // namespace capstan
