// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/orphan_guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "capstan/error.hpp"
#include "core/tools/launcher/child.hpp"

namespace capstan::launcher {
namespace {

/// Also where the system has no close_range (Linux before 5.9, seccomp).
void close_all_but(int kept) {
  const int below = kept > 0 ? ::close_range(0, static_cast<unsigned>(kept) - 1, 0) : 0;
  if (below == 0 && ::close_range(static_cast<unsigned>(kept) + 1, ~0u, 0) == 0) return;
  std::vector<int> open;
  std::error_code none;  // without /proc they stay open
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd", none})
    open.push_back(std::atoi(entry.path().filename().c_str()));
  for (const int fd : open)
    if (fd != kept) ::close(fd);
}

/// The guard's process: collects the groups until the launcher has ended, then kills them.
[[noreturn]] void stand_guard(int pipe) {
  ::setpgid(0, 0);      // a signal to the launcher's group does not end this process
  close_all_but(pipe);  // this process must not hold any pipe or file of the launcher open
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) ::signal(signal, SIG_IGN);
  std::set<pid_t> groups;
  pid_t told;
  ssize_t got;
  while ((got = ::read(pipe, &told, sizeof told)) == sizeof told || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (told > 0)
      groups.insert(told);
    else
      groups.erase(-told);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard() {
  auto [read, write] = make_pipe();
  pipe_ = std::move(write);
  pid_ = ::fork();
  if (pid_ < 0) refuse_start("cannot start a process", errno);
  if (pid_ != 0) return;
  pipe_.reset();
  stand_guard(read.get());
}

OrphanGuard::~OrphanGuard() {
  pipe_.reset();
  ::waitpid(pid_, nullptr, 0);
}

void OrphanGuard::forget(pid_t group) {
  const pid_t gone = -group;
  static_cast<void>(!::write(pipe_.get(), &gone, sizeof gone));
}

}  // namespace capstan::launcher
