// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/load.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/tools/launcher/child.hpp"

namespace capstan::cli {

/// The shell begins the command again whenever it has ended.
Load::Load(const std::string& command) {
  if (command.empty()) return;
  const std::string loop = "while :; do ( " + command + " ) || sleep 1; done";
  group_ = ::fork();
  if (group_ < 0) launcher::refuse_start("--under-load: cannot start a process", errno);
  if (group_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, STDIN_FILENO), ::dup2(null, STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c", loop.c_str(), nullptr);
    ::_exit(127);
  }
  ::setpgid(group_, group_);
}

Load::~Load() {
  if (group_ == 0) return;
  ::kill(-group_, SIGTERM);
  ::kill(-group_, SIGKILL);
  ::waitpid(group_, nullptr, 0);
}

}  // namespace capstan::cli
