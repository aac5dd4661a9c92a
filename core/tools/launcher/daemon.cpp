// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/daemon.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "capstan/error.hpp"
#include "core/base/error_text.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/host_protocol.hpp"
#include "core/tools/launcher/local_ranks.hpp"
#include "core/tools/launcher/output.hpp"

namespace capstan::launcher {
namespace {

/// Passes input to rank 0's standard input, no faster than rank 0 reads it.
class InputRelay {
 public:
  explicit InputRelay(bool wanted) {
    if (!wanted) return;
    pipe_ = make_pipe();
    ::fcntl(pipe_.write.get(), F_SETFL, O_NONBLOCK);
  }

  int for_rank() const { return pipe_.read.get(); }
  void started() { pipe_.read.reset(); }
  pollfd watch() const { return {pending_.empty() ? -1 : pipe_.write.get(), POLLOUT, 0}; }

  /// No bytes mean the end of the input.
  void take(std::string_view bytes) {
    pending_ += bytes;
    ended_ = bytes.empty();
    if (ended_ && pending_.empty()) pipe_.write.reset();
  }
  /// The number of bytes that were written, or dropped because rank 0 reads no more.
  std::size_t flush() {
    ssize_t done = ::write(pipe_.write.get(), pending_.data(), pending_.size());
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (done < 0) done = static_cast<ssize_t>(pending_.size());
    pending_.erase(0, static_cast<std::size_t>(done));
    if (ended_ && pending_.empty()) pipe_.write.reset();
    return static_cast<std::size_t>(done);
  }

 private:
  Pipe pipe_;
  std::string pending_;
  bool ended_ = false;
};

class Daemon final : public RankListener {
 public:
  explicit Daemon(const std::string& version) : version_(version) {}

  int run() {
    write_all(STDOUT_FILENO, greeting);
    say({{"is", "hello"}, {"version", version_}});
    const auto start = wait_for_orders();
    if (!start) return 0;
    try {
      serve(*start);
    } catch (const CannotRun& error) {
      on_trouble(error.what(), error.status());
    } catch (const Error& error) {
      on_trouble(error.what(), 1);
    }
    return 0;
  }

  void on_output(int rank, Stream stream, std::string_view bytes) override {
    say({{"is", "output"},
         {"rank", rank},
         {"stream", stream == Stream::errors ? 1 : 0},
         {"bytes", binary(bytes)}});
  }
  void on_end(int rank, pid_t pid, int status, const std::string&) override {
    say({{"is", "end"}, {"rank", rank}, {"pid", pid}, {"status", status}});
  }
  void on_trouble(const std::string& what, int exit_status) override {
    say({{"is", "trouble"}, {"what", what}, {"exit_status", exit_status}});
  }

 private:
  /// Errors are ignored: if the launcher is gone, the next read from it shows that, too.
  static void say(const nlohmann::json& message) { write_all(STDOUT_FILENO, encode(message)); }

  /// Reads messages of the launcher. False: the launcher is gone.
  bool read_more() {
    char buffer[8192];
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got > 0) reader_.append({buffer, static_cast<std::size_t>(got)});
    return got > 0 || (got < 0 && errno == EINTR);
  }

  std::optional<nlohmann::json> wait_for_orders() {
    auto message = reader_.next();
    while (!message && read_more()) message = reader_.next();
    return message;
  }

  void serve(const nlohmann::json& start) {
    const auto directory = start.at("directory").get<std::string>();
    if (::chdir(directory.c_str()) != 0)
      throw InvalidArgument(fmt::format("there is no directory {} ({}): --directory sets another",
                                        directory, std::strerror(errno)));
    const std::chrono::milliseconds grace{start.at("grace").get<std::int64_t>()};
    InputRelay input{start.at("input").get<bool>()};
    LocalRanks ranks{
        {.first = start.at("first").get<int>(),
         .count = start.at("count").get<int>(),
         .size = start.at("size").get<int>(),
         .command = start.at("command").get<std::vector<std::string>>(),
         .environment =
             start.at("environment").get<std::vector<std::pair<std::string, std::string>>>(),
         .bind = start.at("bind").get<bool>(),
         .input = input.for_rank()},
        *this,
        guard_};
    ranks.start();
    input.started();
    loop(ranks, input, grace);
  }

  void loop(LocalRanks& ranks, InputRelay& input, std::chrono::milliseconds grace) {
    Ranks* const all[] = {&ranks};
    bool launcher_here = true;
    Deadline deadline = Deadline::never();
    while (!ranks.finished()) {
      while (const auto message = reader_.next()) obey(*message, ranks, input);
      const auto happened = poll_ranks(
          all, {{launcher_here ? STDIN_FILENO : -1, POLLIN, 0}, input.watch()}, deadline);
      if (happened[1]) say({{"is", "taken"}, {"bytes", input.flush()}});
      if (happened[0]) launcher_here = read_more();
      if (happened[0] && !launcher_here) {
        ranks.send_signal(SIGTERM);
        deadline = Deadline::in(grace);
      }
      if (!deadline.expired()) continue;
      ranks.send_signal(SIGKILL);
      deadline = Deadline::in(grace);
    }
  }

  static void obey(const nlohmann::json& message, LocalRanks& ranks, InputRelay& input) {
    const auto is = message.at("is").get<std::string>();
    if (is == "signal") ranks.send_signal(message.at("signal").get<int>());
    if (is == "input") input.take(bytes_of(message.at("bytes")));
  }

  const std::string version_;
  OrphanGuard guard_;
  HostMessageReader reader_{false};
};

}  // namespace

int serve_launcher(const std::string& version) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return Daemon{version}.run();
  } catch (...) {  // the input did not come from a launcher
    complain("capstan daemon: {}; it is for `capstan run --hosts` to start\n",
             text_of(std::current_exception()));
    return 1;
  }
}

}  // namespace capstan::launcher
