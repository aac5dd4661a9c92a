// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "core/tools/launcher/complain.hpp"

namespace capstan::cli {

void begin_as_expected() {
  // In this order, as open() gives the lowest number. Nothing can be written to standard output
  // then, so that a lost result is noticed.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(!::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR));
  winsize size{};  // ranks print through pipes: they learn the width of the terminal from COLUMNS
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    ::setenv("COLUMNS", fmt::to_string(size.ws_col).c_str(), 0);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is an error of what writes it
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool output_is_lost() {
  return std::ferror(stdout) != 0 || !std::cout;
}

int with_written_output(int status) {
  errno = 0;
  const bool written = std::cout.flush().good() && std::fflush(stdout) == 0 && !output_is_lost();
  if (written) return status;
  launcher::complain("capstan: the results could not be written to standard output{}{}\n",
                     errno ? ": " : "", errno ? std::strerror(errno) : "");
  return status != 0 ? status : 1;
}

}  // namespace capstan::cli
