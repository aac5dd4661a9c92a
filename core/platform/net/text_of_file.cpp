// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/text_of_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"

namespace capstan {
namespace {

/// Devices never end. Opening a file says what else is wrong with it.
void check_kind(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status))
    throw InvalidArgument(fmt::format("{} cannot be read: it is a folder; name a file", path));
  if (std::filesystem::is_other(status) && !std::filesystem::is_fifo(status))
    throw InvalidArgument(
        fmt::format("{} cannot be read: it is a device or a socket; name a file", path));
}

constexpr std::chrono::seconds patience_with_writers{2};

bool is_pipe(const FileDescriptor& file) {
  struct stat status{};
  return ::fstat(file.get(), &status) == 0 && S_ISFIFO(status.st_mode);
}

/// For a moment at most.
void await_data(const FileDescriptor& file) {
  pollfd awaited{file.get(), POLLIN, 0};
  if (::poll(&awaited, 1, 100) == 1 && (awaited.revents & POLLIN) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
}

}  // namespace

std::string text_of_file(const std::string& path, Bytes most) {
  check_kind(path);
  // Opening a pipe must not wait for somebody who writes to it.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(fmt::format("{:.500} cannot be read: {}", path, why));
  };
  if (!file.valid()) refuse(std::strerror(errno));
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  Deadline writer = Deadline::in(patience_with_writers);
  while (true) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno != EAGAIN && errno != EINTR) refuse(std::strerror(errno));
    if (got == 0 && (!text.empty() || !is_pipe(file))) return text;
    if (got == 0 && writer.expired()) refuse("it is a pipe, and nobody writes to it");
    if (got <= 0) {
      await_data(file);
      continue;
    }
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > most.value())
      throw InvalidArgument(
          fmt::format("{} is longer than {} MiB: it is no such file; name another one", path,
                      most.value() >> 20));
  }
}

}  // namespace capstan
