// SPDX-License-Identifier: Apache-2.0

// Files of lstopo, read by a child process: libhwloc crashes and hangs on some that it has not
// written, and would take the program with it.

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/text_of_file.hpp"
#include "topology/hwloc_topology.hpp"

namespace capstan::hwloc {
namespace {

/// The time on a processor that the child may take. A machine of 2048 cores takes a tenth.
constexpr rlim_t longest_seconds = 2;

bool load(hwloc_topology* topology, const std::string& text) {
  const int length = static_cast<int>(text.size()) + 1;
  return hwloc_topology_set_xmlbuffer(topology, text.c_str(), length) == 0 &&
         hwloc_topology_load(topology) == 0;
}

/// The child ends by the signal that says what has happened, and leaves no core dump.
void limit_this_process() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  constexpr rlimit no_core{0, 0}, time{longest_seconds, longest_seconds + 1};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::setrlimit(RLIMIT_CPU, &time);
}

/// Writes the topology of `text` as hwloc itself would have. Ends with errno, or 0.
[[noreturn]] void rewrite(hwloc_topology* topology, const std::string& text, int to) {
  limit_this_process();
  char* out = nullptr;
  int length = 0;
  errno = EINVAL;
  if (!load(topology, text) || hwloc_topology_export_xmlbuffer(topology, &out, &length, 0) != 0)
    ::_exit(errno);
  for (std::string_view rest{out, static_cast<std::size_t>(length)}; !rest.empty();) {
    const ssize_t written = ::write(to, rest.data(), rest.size());
    if (written < 0) ::_exit(errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  ::_exit(0);
}

std::string read_all(int from) {
  std::string text;
  char buffer[8192];
  while (true) {
    const ssize_t got = ::read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw SystemError(fmt::format("waitpid: {}", std::strerror(errno)));
  return status;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgument(fmt::format(
      "cannot read a topology from '{}': {}; name a file written by 'lstopo FILE.xml'", path, why));
}

void check(int status, const std::string& path) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    refuse(path, fmt::format("libhwloc was not done with it after {} s", longest_seconds));
  if (WIFSIGNALED(status))
    refuse(path, fmt::format("libhwloc crashed with signal {} ({}) while reading it",
                             WTERMSIG(status), ::strsignal(WTERMSIG(status))));
  if (WEXITSTATUS(status) != 0) refuse(path, std::strerror(WEXITSTATUS(status)));
}

/// For programs of one thread: the child does more than is safe after a fork beside others.
std::string rewritten(hwloc_topology* topology, const std::string& path) {
  const std::string text = text_of_file(path, Bytes{std::uint64_t{1} << 30});
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw SystemError(fmt::format("pipe: {}", std::strerror(errno)));
  FileDescriptor from{ends[0]}, to{ends[1]};
  const pid_t child = ::fork();
  if (child < 0) throw SystemError(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) rewrite(topology, text, to.get());
  to.reset();
  const std::string all = read_all(from.get());
  check(status_of(child), path);
  return all;
}

}  // namespace

void load_xml(hwloc_topology* topology, const std::string& path) {
  const std::string text = rewritten(topology, path);
  // The length that hwloc has counted includes the end of the text.
  if (!load(topology, text.c_str())) refuse(path, std::strerror(errno));
}

}  // namespace capstan::hwloc
