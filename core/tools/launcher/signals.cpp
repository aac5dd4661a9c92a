// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include "core/platform/net/system_call.hpp"

namespace capstan::launcher {

SignalSource::SignalSource() {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
    ::sigaddset(&signals_, signal);
  // First: signals that nothing reads must not be blocked.
  fd_ = FileDescriptor{checked(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd",
                               "a sandbox must allow it")};
  ::sigprocmask(SIG_BLOCK, &signals_, &previous_);
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, &previous_pipe_);
}

SignalSource::~SignalSource() {
  ::sigaction(SIGPIPE, &previous_pipe_, nullptr);
  ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

int SignalSource::next() const {
  signalfd_siginfo info;
  const bool came = ::read(fd_.get(), &info, sizeof info) == sizeof info;
  return came ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace capstan::launcher
