#include "core/net/host_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string_view>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// FNV-1a, 64 bits: equal in all builds, which std::hash does not promise.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string boot_id() {
  const char* path = "/proc/sys/kernel/random/boot_id";
  std::string id;
  if (!std::getline(std::ifstream{path}, id) || id.empty())
    throw SystemError(
        fmt::format("cannot tell hosts apart: {} is not readable; mount /proc", path));
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw SystemError("cannot tell hosts apart: gethostname failed; give this host a name");
  return name.data();
}

/// Ranks in different ones cannot reach each other's local sockets, over which they would share
/// memory. A kernel without namespaces has only one.
std::string network_namespace() {
  struct stat status{};
  if (::stat("/proc/self/ns/net", &status) != 0) return "none";
  return fmt::format("{}", status.st_ino);
}

}  // namespace

std::string host_identity() {
  const std::string place = fmt::format("{}\n{}", host_name(), network_namespace());
  return fmt::format("{}-{:016x}", boot_id(), hash_of(place));
}

}  // namespace capstan
