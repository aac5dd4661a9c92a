#include "core/cli/launcher/launcher.hpp"

#include <fmt/color.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/deadline.hpp"
#include "core/cli/launcher/child.hpp"
#include "core/cli/launcher/output.hpp"
#include "core/cli/launcher/warden.hpp"
#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/secret.hpp"
#include "core/runtime/bootstrap/store_server.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

std::string hexadecimal(const Secret::Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

int shell_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Blocks the signals that the job loop reads from a descriptor instead, for as long as it lives.
class SignalSource {
 public:
  SignalSource() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
      ::sigaddset(&signals_, signal);
    ::sigprocmask(SIG_BLOCK, &signals_, &previous_);
    fd_ = FileDescriptor{::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK)};
  }
  ~SignalSource() { ::sigprocmask(SIG_SETMASK, &previous_, nullptr); }
  SignalSource(const SignalSource&) = delete;

  int fd() const { return fd_.get(); }
  int next() const {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t signals_{}, previous_{};
  FileDescriptor fd_;
};

struct RankProcess {
  Child child;
  LineForwarder output, errors;
  bool running = true;
};

class Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        secret_text_(hexadecimal(random_bytes())),
        server_({.endpoint = TcpEndpoint{"127.0.0.1", options.store_port},
                 .secret = Secret::from_text(secret_text_)}),
        deadline_(options.timeout ? Deadline::in(*options.timeout) : Deadline::never()) {}

  ~Job() { kill_all(SIGKILL), reap_all(); }

  int run() {
    start_all();  // not in the constructor: when it fails half way, the destructor ends the others
    while (running() > 0 || open_streams() > 0) {
      poll_once();
      if (deadline_.expired()) expire();
    }
    return status_;
  }

 private:
  void start_all() {
    const auto machine = Machine::discover();
    const auto places = place_ranks(machine, options_.ranks);
    const bool colours = ::isatty(STDOUT_FILENO) != 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const CpuSet& cpus = places[static_cast<std::size_t>(rank)];
      std::string tag = options_.tag_lines ? fmt::format("[{}] ", rank) : "";
      if (colours && options_.tag_lines) tag = fmt::format("\033[3{}m{}\033[0m", 1 + rank % 6, tag);
      ranks_.push_back({start_child({.command = options_.command,
                                     .environment = environment_of(rank, cpus),
                                     .cpus = options_.bind ? cpus : CpuSet{},
                                     .inherit_stdin = rank == 0 && ::isatty(STDIN_FILENO) == 0,
                                     .announce = warden_.announce()}),
                        LineForwarder{tag, STDOUT_FILENO}, LineForwarder{tag, STDERR_FILENO}});
    }
  }

  std::vector<std::pair<std::string, std::string>> environment_of(int rank,
                                                                  const CpuSet& cpus) const {
    auto variables = options_.environment;
    variables.insert(variables.end(), {{"CAPSTAN_RANK", std::to_string(rank)},
                                       {"CAPSTAN_SIZE", std::to_string(options_.ranks)},
                                       {"CAPSTAN_LOCAL_RANK", std::to_string(rank)},
                                       {"CAPSTAN_LOCAL_SIZE", std::to_string(options_.ranks)},
                                       {"CAPSTAN_STORE", to_string(server_.endpoint())},
                                       {"CAPSTAN_SECRET", secret_text_}});
    if (options_.bind) variables.emplace_back("CAPSTAN_BINDING", to_string(cpus));
    return variables;
  }

  int running() const {
    int count = 0;
    for (const RankProcess& rank : ranks_) count += rank.running;
    return count;
  }

  int open_streams() const {
    int count = 0;
    for (const RankProcess& rank : ranks_)
      count += rank.child.output.valid() + rank.child.errors.valid();
    return count;
  }

  void poll_once() {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    const auto watch = [&](const FileDescriptor& fd) {
      watched.push_back({fd.valid() ? fd.get() : -1, POLLIN, 0});
    };
    for (const RankProcess& rank : ranks_) {
      watch(rank.child.output);
      watch(rank.child.errors);
      watched.push_back({rank.running ? rank.child.pidfd.get() : -1, POLLIN, 0});
    }
    ::poll(watched.data(), watched.size(), deadline_.poll_timeout());
    if (watched[0].revents) pass_on_signal();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (watched[1 + 3 * i].revents) forward(ranks_[i].child.output, ranks_[i].output);
      if (watched[2 + 3 * i].revents) forward(ranks_[i].child.errors, ranks_[i].errors);
      if (watched[3 + 3 * i].revents) reap(static_cast<int>(i));
    }
  }

  static void forward(FileDescriptor& from, LineForwarder& to) {
    char buffer[65536];
    const ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got > 0) return to.take({buffer, static_cast<std::size_t>(got)});
    if (got < 0 && errno == EINTR) return;
    to.finish();
    from.reset();
  }

  void reap(int index) {
    RankProcess& rank = ranks_[static_cast<std::size_t>(index)];
    siginfo_t ended{};
    const auto pid = static_cast<id_t>(rank.child.pid);
    if (::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
    // What the rank started and left behind keeps its pipes open: it ends with the rank, whose
    // number nobody else can have before it is reaped.
    ::kill(-rank.child.pid, SIGKILL);
    int status = 0;
    warden_.forget(rank.child.pid);
    ::waitpid(rank.child.pid, &status, 0);
    rank.running = false;
    if (status == 0 || ending_) return;
    status_ = shell_status(status);
    fmt::print(stderr, "capstan run: rank {} (pid {}) {}; ending the others\n", index,
               rank.child.pid, describe_status(status));
    end_all();
  }

  void pass_on_signal() {
    const int signal = signals_.next();
    if (signal == 0) return;
    kill_all(signal);
    if (signal == SIGTSTP) ::raise(SIGSTOP);  // the SIGCONT that ends this is passed on, too
    if (signal == SIGTSTP || signal == SIGCONT || signal == SIGUSR1 || signal == SIGUSR2) return;
    if (ending_) return;
    fmt::print(stderr, "capstan run: got signal {} ({}); ending all ranks\n", signal,
               ::strsignal(signal));
    status_ = 128 + signal;
    end_all();
  }

  /// First politely, then, when the grace is over, for good.
  void end_all() {
    ending_ = true;
    kill_all(SIGTERM);
    deadline_ = Deadline::in(options_.grace);
  }

  void expire() {
    if (!ending_) {
      fmt::print(stderr, "capstan run: the job took longer than {} s; ending all ranks\n",
                 std::chrono::duration<double>(*options_.timeout).count());
      status_ = 124;
      return end_all();
    }
    kill_all(SIGKILL);
    deadline_ = Deadline::in(options_.grace);
  }

  void kill_all(int signal) {
    for (const RankProcess& rank : ranks_)
      if (rank.running) ::kill(-rank.child.pid, signal), ::kill(rank.child.pid, signal);
  }

  void reap_all() {
    for (RankProcess& rank : ranks_)
      if (rank.running) warden_.forget(rank.child.pid), ::waitpid(rank.child.pid, nullptr, 0);
  }

  const LaunchOptions& options_;
  Warden warden_;  // before signals are blocked and the store has its threads
  const SignalSource signals_;
  const std::string secret_text_;
  StoreServer server_;
  std::vector<RankProcess> ranks_;
  Deadline deadline_;
  bool ending_ = false;
  int status_ = 0;
};

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.ranks < 1) throw InvalidArgument("a job needs at least one rank: -n 1");
  if (options.command.empty())
    throw InvalidArgument("no program to run: capstan run -n 4 -- PROGRAM");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  try {
    return Job{options}.run();
  } catch (const CannotRun& error) {
    fmt::print(stderr, "capstan run: {}\n", error.what());
    return error.status();
  }
}

}  // namespace capstan::cli
