// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/host_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "capstan/error.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {
namespace {

std::string read_boot_id() {
  const char* path = "/proc/sys/kernel/random/boot_id";
  std::string id;
  errno = 0;
  if (std::getline(std::ifstream{path}, id) && !id.empty()) return id;
  const int error = errno;
  // Where /proc is missing, the number of the installation tells hosts apart, beside their names.
  if (error == ENOENT && std::getline(std::ifstream{"/etc/machine-id"}, id) && !id.empty())
    return id;
  const std::string limit = limit_behind(error);
  throw SystemError(fmt::format("cannot tell hosts apart: {} is not readable; {}", path,
                                limit.empty() ? "mount /proc" : limit));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw SystemError("cannot tell hosts apart: gethostname failed; give this host a name");
  return name.data();
}

}  // namespace

const std::string& boot_id() {
  static const auto& id = *new std::string{read_boot_id()};
  return id;
}

std::uint64_t namespace_id(const std::string& kind) {
  struct stat status{};
  return ::stat(("/proc/self/ns/" + kind).c_str(), &status) == 0 ? status.st_ino : 0;
}

std::uint64_t network_identity() {
  return fingerprint_number(fmt::format("{} {}", boot_id(), namespace_id("net")));
}

std::string host_identity() {
  // Ranks in different network namespaces cannot reach each other's local sockets, over which they
  // would share memory.
  const std::string place = fmt::format("{}\n{}", host_name(), namespace_id("net"));
  return fmt::format("{}-{:016x}", boot_id(), fingerprint_number(place));
}

}  // namespace capstan
