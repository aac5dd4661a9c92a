// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "capstan/error.hpp"
#include "core/platform/net/limits.hpp"

extern char** environ;

namespace capstan::launcher {
namespace {

/// How often a process without a pidfd is looked at.
constexpr std::chrono::milliseconds look_interval{10};

std::vector<std::string> merged_environment(const ChildOptions& options) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : options.environment) variables[name] = value;
  std::vector<std::string> merged;
  for (const auto& [name, value] : variables) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

/// All data that the child needs. They are prepared before the fork, after which nothing may be
/// allocated.
struct Prepared {
  std::vector<std::string> environment;
  std::vector<char*> argv, envp;
  cpu_set_t cpus;
  bool bind;
  int input;
  int announce;
  pid_t parent;
};

[[noreturn]] void run_child(const Prepared& prepared, const Pipe& out, const Pipe& err,
                            const Pipe& failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t self = ::getpid();
  static_cast<void>(!::write(prepared.announce, &self, sizeof self));
  if (::getppid() != prepared.parent) ::_exit(127);  // the parent died before the lines above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  int input = prepared.input;
  if (input < 0) input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  ::dup2(out.write.get(), STDOUT_FILENO);
  ::dup2(err.write.get(), STDERR_FILENO);
  if (prepared.bind) ::sched_setaffinity(0, sizeof prepared.cpus, &prepared.cpus);
  environ = const_cast<char**>(prepared.envp.data());
  ::execvp(prepared.argv[0], prepared.argv.data());
  const int error = errno;
  static_cast<void>(!::write(failure.write.get(), &error, sizeof error));
  ::_exit(127);
}

}  // namespace

void refuse_start(std::string_view what, int error) {
  const std::string limit = error == EAGAIN ? limit_of_threads() : limit_behind(error);
  throw SystemError(
      fmt::format("{}: {}{}{}", what, std::strerror(error), limit.empty() ? "" : ": ", limit));
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse_start("cannot make a pipe", errno);
  return {FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

bool has_ended(const Child& child) {
  siginfo_t ended{};
  const auto pid = static_cast<id_t>(child.pid);
  if (child.pid <= 0) return false;
  if (::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD;
  return ended.si_pid != 0;
}

Deadline next_look_at(const Child& child) {
  return child.pidfd.valid() ? Deadline::never() : Deadline::in(look_interval);
}

Child start_child(const ChildOptions& options) {
  Prepared prepared{.environment = merged_environment(options),
                    .argv = pointers(options.command),
                    .envp = {},
                    .cpus = {},
                    .bind = !options.cpus.empty(),
                    .input = options.input,
                    .announce = options.announce,
                    .parent = ::getpid()};
  prepared.envp = pointers(prepared.environment);
  CPU_ZERO(&prepared.cpus);
  for (const unsigned cpu : options.cpus) CPU_SET(cpu, &prepared.cpus);

  Pipe out = make_pipe(), err = make_pipe(), failure = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) refuse_start("cannot start a process", errno);
  if (pid == 0) run_child(prepared, out, err, failure);

  failure.write.reset();
  Child child{.pid = pid,
              .pidfd = FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))},
              .output = std::move(out.read),
              .errors = std::move(err.read)};
  int error = 0;
  ssize_t got;
  while ((got = ::read(failure.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got > 0)
    throw CannotRun(error == ENOENT ? 127 : 126,
                    fmt::format("cannot run '{}': {}: check the name and the path",
                                options.command.front(), std::strerror(error)));
  return child;
}

}  // namespace capstan::launcher
