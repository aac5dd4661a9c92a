// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/limits.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>

namespace capstan {
namespace {

std::string memory_limit() {
  const Limit space = limit_of(RLIMIT_AS);
  if (space.is_set())
    return fmt::format(
        "this process may have {} bytes of address space (RLIMIT_AS): raise it (ulimit -v), or "
        "need less (CAPSTAN_CHUNK)",
        space.most);
  return "memory has run out, or the number of mappings (vm.max_map_count): need less "
         "(CAPSTAN_CHUNK, CAPSTAN_BUFFER_LIMIT), or raise the limit of the container";
}

/// The address space that this process uses; 0 where that is not known.
std::uint64_t used_space() {
  std::uint64_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t stack_of_a_thread() {
  const Limit stack = limit_of(RLIMIT_STACK);
  constexpr std::uint64_t usual = 2 << 20;  // where stacks have no limit
  return stack.is_set() ? stack.most : usual;
}

}  // namespace

Limit limit_of(int resource) {
  rlimit limit{};
  const bool known = ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
  return {known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : Limit::none};
}

std::uint64_t open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> all{::opendir("/proc/self/fd"), ::closedir};
  std::uint64_t count = 0;
  while (all && ::readdir(all.get())) ++count;
  constexpr std::uint64_t dots_and_this = 3;
  return count > dots_and_this ? count - dots_and_this : 0;
}

std::string limit_behind(int error) {
  switch (error) {
    case EMFILE:
      return fmt::format(
          "all {} descriptors that this process may have are in use (RLIMIT_NOFILE): raise the "
          "limit (ulimit -n); each communicator and group needs one for each peer",
          limit_of(RLIMIT_NOFILE).most);
    case ENFILE:
      return "all descriptors of this host are in use: raise fs.file-max";
    case EFBIG:
      return fmt::format(
          "files, and memory that is shared, may have {} bytes (RLIMIT_FSIZE): raise it (ulimit "
          "-f), or need less (CAPSTAN_CHUNK)",
          limit_of(RLIMIT_FSIZE).most);
    case ENOSPC:
      return "memory for shared memory has run out: need less (CAPSTAN_CHUNK, "
             "CAPSTAN_BUFFER_LIMIT), or raise the limit of the container";
    case ENOMEM:
      return memory_limit();
    default:
      return {};
  }
}

std::string limit_of_threads() {
  const Limit space = limit_of(RLIMIT_AS);
  if (space.is_set() && used_space() + stack_of_a_thread() > space.most)
    return fmt::format(
        "its stack of {} bytes does not fit into the {} bytes of address space that this process "
        "may have (RLIMIT_AS), as {} are in use: raise the limit (ulimit -v), or let stacks be "
        "smaller (ulimit -s)",
        stack_of_a_thread(), space.most, used_space());
  const Limit processes = limit_of(RLIMIT_NPROC);
  const std::string own =
      processes.is_set()
          ? fmt::format("this user may have {} (RLIMIT_NPROC, ulimit -u)", processes.most)
          : "no limit of this user is set (RLIMIT_NPROC)";
  return fmt::format(
      "{}; a container may allow fewer processes and threads (pids.max), and a sandbox none", own);
}

void refuse_thread(std::string_view what, const std::system_error& error) {
  throw SystemError(fmt::format("cannot start a thread for {}: {}: {}", what,
                                error.code().message(), limit_of_threads()));
}

LimitReached out_of_memory(std::string_view where) {
  return LimitReached{fmt::format("{}: {}", where, memory_limit())};
}

}  // namespace capstan
