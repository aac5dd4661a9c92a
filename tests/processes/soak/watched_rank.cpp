// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/soak/watched_rank.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace capstan::soak {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

WatchedRank::WatchedRank(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe for a rank's output"};
  output_ = FileDescriptor{ends[0]};
  const FileDescriptor theirs{ends[1]};
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error{"no process for a rank"};
  if (pid_ == 0) become(command, environment, theirs.get());
}

WatchedRank::WatchedRank(WatchedRank&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      partial_(std::move(other.partial_)),
      lines_(std::move(other.lines_)),
      stopped_(other.stopped_),
      ended_(other.ended_),
      status_(other.status_) {}

WatchedRank::~WatchedRank() {
  if (pid_ < 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void WatchedRank::look() {
  if (ended_) return;
  look_at_state();  // first, so that nothing that it has said is missed
  read_lines();
}

void WatchedRank::look_at_state() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG | WUNTRACED) != pid_) return;
  if (WIFSTOPPED(status)) {
    stopped_ = Clock::now();
    return;
  }
  ended_ = Clock::now();
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void WatchedRank::read_lines() {
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(output_.get(), buffer, sizeof buffer)) > 0;)
    partial_.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = partial_.find('\n')) != std::string::npos;) {
    lines_.push_back({partial_.substr(0, end), Clock::now()});
    partial_.erase(0, end + 1);
  }
}

const WatchedRank::Line* WatchedRank::said(std::string_view beginning) const {
  for (const Line& line : lines_)
    if (line.text.starts_with(beginning)) return &line;
  return nullptr;
}

void WatchedRank::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

}  // namespace capstan::soak
