// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/job.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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
    lines_.push_back({LineForwarder{tag, output_}, LineForwarder{tag, errors_}});
  }
}

int Job::run() {
  std::vector<Ranks*> all;
  for (const auto& ranks : ranks_) all.push_back(ranks.get());
  while (!finished() || !all_written()) {
    const auto happened =
        poll_ranks(all, {{signals_.fd(), POLLIN, 0}, output_.watch(), errors_.watch()}, deadline_);
    if (happened[1] || happened[2]) write_output();
    if (happened[0]) pass_on_signal();
    if (deadline_.expired()) expire();
    if (!finished()) continue;
    for (Lines& lines : lines_) lines.output.finish(), lines.errors.finish();
    notice_lost_output();
  }
  return status_;
}

void Job::write_output() {
  output_.write_some();
  errors_.write_some();
  notice_lost_output();
}

bool Job::finished() const {
  return std::ranges::all_of(ranks_, [](const auto& ranks) { return ranks->finished(); });
}

void Job::on_output(int rank, Stream stream, std::string_view bytes) {
  Lines& lines = lines_[static_cast<std::size_t>(rank)];
  LineForwarder& forwarder = stream == Stream::output ? lines.output : lines.errors;
  bytes.empty() ? forwarder.finish() : forwarder.take(bytes);
  notice_lost_output();
}

/// Where nobody reads any more, the job ends as other programs do; else it continues without
/// output.
void Job::notice_lost_output() {
  if (output_.error() == 0 || output_lost_) return;
  output_lost_ = true;
  const bool unread = output_.error() == EPIPE;
  const std::string what = fmt::format("what ranks print cannot be written to standard output: {}",
                                       std::strerror(output_.error()));
  if (unread) return on_trouble(what, 128 + SIGPIPE);
  if (status_ == 0) status_ = 1;
  say("{}", what);
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
  if (options_.keep_going) return say("{}; the others continue", what);
  failed_ = true;
  say("{}; the others are ended in {} s", what, std::chrono::duration<double>(patience).count());
  deadline_ = deadline_.clamp(Deadline::in(patience));
}

void Job::on_trouble(const std::string& what, int exit_status) {
  if (ending_) return;
  if (status_ == 0) status_ = exit_status;
  say("{}", what);
  end_all();
}

void Job::pass_on_signal() {
  const int signal = signals_.next();
  if (signal == 0) return;
  send_signal(signal);
  if (signal == SIGTSTP) ::raise(SIGSTOP);  // the SIGCONT that ends this is passed on, too
  if (signal == SIGTSTP || signal == SIGCONT || signal == SIGUSR1 || signal == SIGUSR2) return;
  told_to_end_ = true;
  if (ending_) return;
  if (failed_) return end_all();
  say("got signal {} ({}); ending all ranks", signal, ::strsignal(signal));
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
    say("the job took longer than {} s; ending all ranks",
        std::chrono::duration<double>(*options_.timeout).count());
    status_ = 124;
    told_to_end_ = true;
    return end_all();
  }
  if (told_to_end_ && (killed_ || finished())) output_.give_up(), errors_.give_up();
  killed_ = true;
  send_signal(SIGKILL);
  deadline_ = Deadline::in(options_.grace);
}

void Job::send_signal(int signal) {
  for (const auto& ranks : ranks_) ranks->send_signal(signal);
}

}  // namespace capstan::launcher
