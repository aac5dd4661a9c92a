// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/remote_host.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "capstan/error.hpp"
#include "core/base/printable.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan::launcher {
namespace {

constexpr std::size_t most_input_in_flight = 64 << 10;
constexpr std::size_t longest_quotation = 200;

struct SocketPair {
  FileDescriptor mine, theirs;
};

/// A socket pair instead of a pipe: a write to an agent that has ended must not kill this process.
SocketPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw SystemError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return {FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

bool ends_processes(int signal) {
  return signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGHUP ||
         signal == SIGQUIT;
}

}  // namespace

RemoteHost::RemoteHost(RemoteHostOptions options, RankListener& listener, Outlet& errors,
                       OrphanGuard& guard)
    : options_(std::move(options)),
      listener_(listener),
      guard_(guard),
      errors_(fmt::format("[{}] ", options_.place.host), errors),
      answer_due_(Deadline::in(options_.answer_timeout)),
      left_(options_.place.ranks),
      feeding_(options_.feeds_input) {
  SocketPair ends = make_socket_pair();
  agent_ = start_child({.command = options_.agent,
                        .environment = {},
                        .cpus = {},
                        .input = ends.theirs.get(),
                        .announce = guard_.announce()});
  control_ = std::move(ends.mine);
}

RemoteHost::~RemoteHost() {
  kill_agent(SIGKILL);
  if (!agent_runs_) return;
  guard_.forget(agent_.pid);
  ::waitpid(agent_.pid, nullptr, 0);
}

void RemoteHost::watch(std::vector<pollfd>& entries) const {
  const auto fd_if = [](bool wanted, const FileDescriptor& fd) {
    return wanted && fd.valid() ? fd.get() : -1;
  };
  const bool reads_input =
      feeding_ && answered_ && agent_runs_ && input_in_flight_ < most_input_in_flight;
  const bool reads_output = listener_.takes_output();
  entries.push_back({fd_if(reads_output, agent_.output), POLLIN, 0});
  entries.push_back({fd_if(reads_output, agent_.errors), POLLIN, 0});
  entries.push_back({fd_if(agent_runs_, agent_.pidfd), POLLIN, 0});
  entries.push_back({fd_if(!outgoing_.empty(), control_), POLLOUT, 0});
  entries.push_back({reads_input ? STDIN_FILENO : -1, POLLIN, 0});
}

void RemoteHost::handle(std::span<const pollfd> entries) {
  if (entries[0].revents) read_messages();
  if (entries[1].revents) forward_errors();
  if (agent_runs_) reap();
  if (entries[3].revents) flush();
  if (entries[4].revents) feed_input();
  if (!answered_ && !lost_ && answer_due_.expired())
    lose(fmt::format("no answer from its agent ({}) within {}: see whether the host is up and "
                     "lets this user in without a question",
                     agent_text(), answer_due_.budget()),
         1);
  const bool silent = !agent_runs_ && !agent_.output.valid();
  if (!silent || lost_ || left_ == 0) return;
  const bool killed = WIFSIGNALED(agent_status_);
  const auto how = fmt::format("{} {}", killed ? "was killed by signal" : "exited with status",
                               killed ? WTERMSIG(agent_status_) : WEXITSTATUS(agent_status_));
  if (!answered_)
    return lose(fmt::format("no ranks could be started there: the agent ({}) {}: try that command "
                            "by hand; --agent sets another, --capstan where Capstan is there",
                            agent_text(), how),
                1);
  lost_ = true;
  listener_.on_loss(fmt::format("host {}: its agent ({}) {} while ranks were running there",
                                options_.place.host, agent_text(), how));
}

Deadline RemoteHost::due() const {
  const Deadline look = agent_runs_ ? next_look_at(agent_) : Deadline::never();
  return answered_ || lost_ ? look : look.clamp(answer_due_);
}

void RemoteHost::read_messages() {
  char buffer[8192];
  const ssize_t got = ::read(agent_.output.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) return agent_.output.reset();
  if (lost_) return;
  reader_.append({buffer, static_cast<std::size_t>(got)});
  try {
    while (const auto message = reader_.next()) take(*message);
  } catch (const NotTheProtocol& error) {
    lose(fmt::format("what its agent ({}) started is not Capstan's daemon, it says \"{}\": give "
                     "--capstan the path of Capstan there, and see that the shell there starts "
                     "without output",
                     agent_text(), printable(error.what(), longest_quotation)),
         1);
  } catch (const nlohmann::json::exception& error) {
    lose(fmt::format("its daemon sent what cannot be read ({})", error.what()), 1);
  }
}

void RemoteHost::take(const nlohmann::json& message) {
  const std::string& is = message.at("is").get_ref<const std::string&>();
  if (is == "hello") return take_hello(message);
  if (is == "taken") {
    input_in_flight_ -= std::min(input_in_flight_, message.at("bytes").get<std::size_t>());
    return;
  }
  if (is == "trouble")
    return lose(message.at("what").get<std::string>(), message.at("exit_status").get<int>());
  const int rank = message.at("rank").get<int>();
  const int first = options_.start.at("first").get<int>();
  if (rank < first || rank >= first + options_.place.ranks)
    throw NotTheProtocol(fmt::format("rank {}", rank));
  if (is == "output") {
    const bool errors = message.at("stream").get<int>() != 0;
    listener_.on_output(rank, errors ? Stream::errors : Stream::output,
                        bytes_of(message.at("bytes")));
  } else if (is == "end") {
    --left_;
    listener_.on_end(rank, message.at("pid").get<pid_t>(), message.at("status").get<int>(),
                     " on host " + options_.place.host);
  }
}

/// The orders, and with them the job's secret, go to none but a daemon of the same version.
void RemoteHost::take_hello(const nlohmann::json& message) {
  const auto& theirs = message.at("version").get_ref<const std::string&>();
  const auto& own = options_.start.at("version").get_ref<const std::string&>();
  if (theirs != own)
    return lose(
        fmt::format("Capstan {} is there, but {} here: use the same on all hosts", theirs, own), 1);
  answered_ = true;
  say(options_.start);
}

void RemoteHost::forward_errors() {
  char buffer[4096];
  const ssize_t got = ::read(agent_.errors.get(), buffer, sizeof buffer);
  if (got > 0) return errors_.take({buffer, static_cast<std::size_t>(got)});
  if (got < 0 && errno == EINTR) return;
  errors_.finish();
  agent_.errors.reset();
}

void RemoteHost::feed_input() {
  char buffer[8192];
  const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  const std::size_t count = got > 0 ? static_cast<std::size_t>(got) : 0;
  say({{"is", "input"}, {"bytes", binary({buffer, count})}});
  input_in_flight_ += count;
  feeding_ = count > 0;
}

void RemoteHost::say(const nlohmann::json& message) {
  outgoing_ += encode(message);
  flush();
}

void RemoteHost::flush() {
  while (!outgoing_.empty()) {
    const ssize_t sent = send_some(control_, std::as_bytes(std::span{outgoing_}));
    if (sent < 0 && would_block(errno)) return;
    if (sent < 0) return outgoing_.clear();  // the end of the agent is noticed elsewhere
    outgoing_.erase(0, static_cast<std::size_t>(sent));
  }
}

void RemoteHost::send_signal(int signal) {
  if (finished()) return;
  const bool last_resort = signal == SIGKILL && kill_asked_;
  if (lost_ || last_resort || (!answered_ && ends_processes(signal))) return kill_agent(signal);
  kill_asked_ = signal == SIGKILL;
  if (answered_) say({{"is", "signal"}, {"signal", signal}});
}

void RemoteHost::kill_agent(int signal) {
  if (!agent_runs_) return;
  ::kill(-agent_.pid, signal);
  ::kill(agent_.pid, signal);
}

void RemoteHost::reap() {
  if (!has_ended(agent_)) return;
  ::kill(-agent_.pid, SIGKILL);
  guard_.forget(agent_.pid);
  ::waitpid(agent_.pid, &agent_status_, 0);
  agent_runs_ = false;
}

/// Gives the host up: no message is expected from it any more.
void RemoteHost::lose(const std::string& what, int exit_status) {
  if (lost_) return;
  lost_ = true;
  listener_.on_trouble(fmt::format("host {}: {}", options_.place.host, what), exit_status);
}

std::string RemoteHost::agent_text() const {
  return fmt::format("{}", fmt::join(options_.agent, " "));
}

bool RemoteHost::finished() const {
  return !agent_runs_ && !agent_.output.valid() && !agent_.errors.valid();
}

}  // namespace capstan::launcher
