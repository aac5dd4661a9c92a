// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/starts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace capstan {
namespace {

/// In the child: nothing else runs in it.
void put(const Start& start, int to) {
  const Stream stream = start.descriptors[static_cast<std::size_t>(to)];
  if (stream == Stream::stopped) return static_cast<void>(::dup2(start.stopped, to));
  int from = ::open(stream == Stream::full ? "/dev/full" : "/dev/null", O_RDWR);
  if (stream == Stream::unread) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::close(ends[to == STDIN_FILENO ? 1 : 0]);
    from = ends[to == STDIN_FILENO ? 0 : 1];
  }
  if (from != to) ::dup2(from, to), ::close(from);
}

void set(Signals signals) {
  sigset_t all;
  ::sigfillset(&all);
  if (signals == Signals::children_ignored) ::signal(SIGCHLD, SIG_IGN);
  if (signals == Signals::pipe_ignored) ::signal(SIGPIPE, SIG_IGN);
  if (signals == Signals::blocked) ::sigprocmask(SIG_BLOCK, &all, nullptr);
}

void leave_child() {
  const pid_t parent = ::getpid();
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == parent) ::pause();
  ::_exit(0);
}

}  // namespace

pid_t begin(const Start& start, const Words& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (int fd = 0; fd < 3; ++fd) put(start, fd);
  ::close_range(3, ~0u, 0);
  for (int fd = 0; fd < 3; ++fd)
    if (start.descriptors[static_cast<std::size_t>(fd)] == Stream::closed) ::close(fd);
  set(start.signals);
  if (start.has_child) leave_child();
  ::execvp(words[0], words.data());
  ::_exit(126);
}

int status_of(pid_t pid) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{120};
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t begin_capstan(const Start& start, const Words& words) {
  Words command{CAPSTAN_PROGRAM};
  command.insert(command.end(), words.begin(), words.end());
  return begin(start, command);
}

int outcome(const Start& start, const Words& words) {
  return status_of(begin_capstan(start, words));
}

Words run(const std::string& script) {
  return {"run", "-n", "2", "--", "sh", "-c", script};
}

std::string describe(const Start& start) {
  constexpr std::array names{"usable", "closed", "full", "unread", "stopped"};
  constexpr std::array signals{"usual signals", "SIGCHLD ignored", "all signals blocked",
                               "SIGPIPE ignored"};
  std::string text = signals[static_cast<std::size_t>(start.signals)];
  if (start.has_child) text += ", a child of before";
  for (std::size_t i = 0; i < 3; ++i)
    text += fmt::format(", {} {}", i, names[static_cast<std::size_t>(start.descriptors[i])]);
  return text;
}

}  // namespace capstan
