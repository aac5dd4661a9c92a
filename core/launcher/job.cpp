#include "core/launcher/job.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/launcher/complain.hpp"

namespace capstan::launcher {
namespace {

std::string describe_status(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Job::Job(const JobOptions& options, const SignalSource& signals)
    : options_(options),
      signals_(signals),
      deadline_(options.timeout ? Deadline::in(*options.timeout) : Deadline::never()) {
  const bool colours = ::isatty(STDOUT_FILENO) != 0;
  for (int rank = 0; rank < options.size; ++rank) {
    std::string tag = options.tag_lines ? fmt::format("[{}] ", rank) : "";
    if (colours && options.tag_lines) tag = fmt::format("\033[3{}m{}\033[0m", 1 + rank % 6, tag);
    lines_.push_back({LineForwarder{tag, STDOUT_FILENO}, LineForwarder{tag, STDERR_FILENO}});
  }
}

int Job::run() {
  std::vector<Ranks*> all;
  for (const auto& ranks : ranks_) all.push_back(ranks.get());
  while (!finished()) {
    const auto happened = poll_ranks(all, {{signals_.fd(), POLLIN, 0}}, deadline_);
    if (happened.front()) pass_on_signal();
    if (deadline_.expired()) expire();
  }
  for (Lines& lines : lines_) {
    lines.output.finish(), lines.errors.finish();
    notice_lost_output(lines.output);
  }
  return status_;
}

bool Job::finished() const {
  return std::ranges::all_of(ranks_, [](const auto& ranks) { return ranks->finished(); });
}

void Job::on_output(int rank, Stream stream, std::string_view bytes) {
  Lines& lines = lines_[static_cast<std::size_t>(rank)];
  LineForwarder& forwarder = stream == Stream::output ? lines.output : lines.errors;
  bytes.empty() ? forwarder.finish() : forwarder.take(bytes);
  notice_lost_output(lines.output);
}

/// Where nobody reads any more, the job ends as other programs do; else it goes on without output.
void Job::notice_lost_output(const LineForwarder& output) {
  if (output.error() == 0 || output_lost_) return;
  output_lost_ = true;
  const bool unread = output.error() == EPIPE;
  const std::string what = fmt::format("what ranks print cannot be written to standard output: {}",
                                       std::strerror(output.error()));
  if (unread) return on_trouble(what, 128 + SIGPIPE);
  if (status_ == 0) status_ = 1;
  complain("capstan run: {}\n", what);
}

void Job::on_end(int rank, pid_t pid, int status, const std::string& where) {
  if (status == 0) return;
  take_failure(fmt::format("rank {}{} (pid {}) {}", rank, where, pid, describe_status(status)),
               shell_status(status));
}

void Job::on_loss(const std::string& what) {
  take_failure(what, 1);
}

/// The first failure counts: others are mostly its consequences.
void Job::take_failure(const std::string& what, int exit_status) {
  if (ending_ || failed_) return;
  if (status_ == 0) status_ = exit_status;
  if (options_.keep_going) return complain("capstan run: {}; the others go on\n", what);
  failed_ = true;
  complain("capstan run: {}; the others are ended in {} s\n", what,
             std::chrono::duration<double>(patience).count());
  deadline_ = deadline_.clamp(Deadline::in(patience));
}

void Job::on_trouble(const std::string& what, int exit_status) {
  if (ending_) return;
  if (status_ == 0) status_ = exit_status;
  complain("capstan run: {}\n", what);
  end_all();
}

void Job::pass_on_signal() {
  const int signal = signals_.next();
  if (signal == 0) return;
  send_signal(signal);
  if (signal == SIGTSTP) ::raise(SIGSTOP);  // the SIGCONT that ends this is passed on, too
  if (signal == SIGTSTP || signal == SIGCONT || signal == SIGUSR1 || signal == SIGUSR2) return;
  if (ending_) return;
  if (failed_) return end_all();
  complain("capstan run: got signal {} ({}); ending all ranks\n", signal,
             ::strsignal(signal));
  status_ = 128 + signal;
  end_all();
}

/// Sends SIGTERM; expire() sends SIGKILL after the grace period.
void Job::end_all() {
  ending_ = true;
  send_signal(SIGTERM);
  deadline_ = Deadline::in(options_.grace);
}

void Job::expire() {
  if (failed_ && !ending_) return end_all();
  if (!ending_) {
    complain("capstan run: the job took longer than {} s; ending all ranks\n",
               std::chrono::duration<double>(*options_.timeout).count());
    status_ = 124;
    return end_all();
  }
  send_signal(SIGKILL);
  deadline_ = Deadline::in(options_.grace);
}

void Job::send_signal(int signal) {
  for (const auto& ranks : ranks_) ranks->send_signal(signal);
}

}  // namespace capstan::launcher
