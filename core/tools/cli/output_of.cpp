// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/output_of.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "capstan/deadline.hpp"
#include "core/tools/launcher/child.hpp"

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds longest{20};

/// False when the other end has been closed.
bool take_what_is_there(int from, std::string& into) {
  char some[4096];
  const ssize_t got = ::read(from, some, sizeof some);
  if (got > 0) into.append(some, static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

std::string output_of(const std::vector<std::string>& command) {
  const launcher::Child child =
      launcher::start_child({.command = command, .environment = {}, .cpus = {}});
  const Deadline deadline = Deadline::in(longest);
  std::string text, errors;
  bool writes = true, complains = true;
  while (writes && !deadline.expired()) {
    pollfd ends[] = {{child.output.get(), POLLIN, 0},
                     {complains ? child.errors.get() : -1, POLLIN, 0}};
    constexpr int between_looks = 100;  // ms
    if (::poll(ends, 2, between_looks) <= 0) continue;
    if (ends[1].revents != 0) complains = take_what_is_there(ends[1].fd, errors);
    if (ends[0].revents != 0) writes = take_what_is_there(ends[0].fd, text);
  }
  if (writes) ::kill(child.pid, SIGKILL);  // what it traces continues
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

}  // namespace capstan::cli
