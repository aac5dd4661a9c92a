// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/text_of_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "capstan/error.hpp"

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

}  // namespace

std::string text_of_file(const std::string& path, Bytes most) {
  check_kind(path);
  errno = 0;
  std::ifstream file{path};
  if (!file.is_open())
    throw InvalidArgument(fmt::format("{:.500} cannot be read: {}", path, std::strerror(errno)));
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most.value())
      throw InvalidArgument(
          fmt::format("{} is longer than {} MiB: it is no such file; name another one", path,
                      most.value() >> 20));
  }
  if (file.bad())
    throw InvalidArgument(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  return text;
}

}  // namespace capstan
