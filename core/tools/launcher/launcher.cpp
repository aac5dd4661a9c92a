// SPDX-License-Identifier: Apache-2.0
#include "core/tools/launcher/launcher.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/platform/net/network.hpp"
#include "core/platform/net/secret.hpp"
#include "core/tools/launcher/child.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/job.hpp"
#include "core/tools/launcher/local_ranks.hpp"
#include "core/tools/launcher/orphan_guard.hpp"
#include "core/tools/launcher/remote_host.hpp"
#include "core/tools/launcher/signals.hpp"

extern char** environ;

namespace capstan::launcher {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// The launcher's settings of Capstan that hold for the whole job. A local rank inherits them
/// anyway.
Environment own_settings() {
  static const std::set<std::string> of_one_rank{
      "CAPSTAN_RANK",  "CAPSTAN_SIZE",   "CAPSTAN_LOCAL_RANK", "CAPSTAN_LOCAL_SIZE",
      "CAPSTAN_STORE", "CAPSTAN_SECRET", "CAPSTAN_BINDING"};
  Environment settings;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with("CAPSTAN_") || equals == text.npos) continue;
    const std::string name = text.substr(0, equals);
    if (!of_one_rank.contains(name)) settings.emplace_back(name, text.substr(equals + 1));
  }
  return settings;
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        settings_(Settings::from_environment()),
        secret_(random_text()),
        server_(
            {.endpoint = store_endpoint(), .secret = Secret::from_text(secret_), .any_user = true}),
        job_({.size = options.ranks,
              .tag_lines = options.tag_lines,
              .timeout = options.timeout,
              .grace = options.grace,
              .keep_going = options.keep_going},
             signals_) {}

  int run() {
    options_.hosts.empty() ? start_here() : start_on_hosts();
    return job_.run();
  }

 private:
  SocketEndpoint store_endpoint() const {
    const bool one_host = options_.hosts.empty();
    if (one_host && !options_.store_port) return AbstractEndpoint{"capstan-run-" + random_text()};
    return TcpEndpoint{one_host ? "127.0.0.1" : choose_address(settings_.interface).address.text(),
                       options_.store_port.value_or(0)};
  }

  void start_here() {
    auto ranks =
        std::make_unique<LocalRanks>(LocalRanksOptions{.count = options_.ranks,
                                                       .size = options_.ranks,
                                                       .command = options_.command,
                                                       .environment = environment_with({}),
                                                       .bind = options_.bind,
                                                       .input = own_input() ? STDIN_FILENO : -1},
                                     job_, guard_);
    LocalRanks& here = *ranks;
    job_.add(std::move(ranks));  // before the start: if that fails half way, the job ends all ranks
    here.start();
  }

  void start_on_hosts() {
    check_path_for_agent(options_.capstan);
    int first = 0;
    for (const HostSlots& place : options_.hosts) {
      auto agent = agent_command(options_.agent, place.host);
      agent.insert(agent.end(), {options_.capstan, "daemon"});
      const bool feeds = first == 0 && own_input();
      job_.add(
          std::make_unique<RemoteHost>(RemoteHostOptions{.place = place,
                                                         .agent = std::move(agent),
                                                         .start = orders(first, place, feeds),
                                                         .feeds_input = feeds,
                                                         .answer_timeout = settings_.join_timeout},
                                       job_, job_.errors(), guard_));
      first += place.ranks;
    }
  }

  /// The message "start", which daemon.cpp reads.
  nlohmann::json orders(int first, const HostSlots& place, bool input) const {
    return {{"is", "start"},
            {"version", CAPSTAN_VERSION},
            {"first", first},
            {"count", place.ranks},
            {"size", options_.ranks},
            {"command", options_.command},
            {"environment", environment_with(own_settings())},
            {"directory", options_.directory},
            {"bind", options_.bind},
            {"input", input},
            {"grace", options_.grace.count()}};
  }

  Environment environment_with(Environment variables) const {
    variables.insert(variables.end(), options_.environment.begin(), options_.environment.end());
    variables.insert(variables.end(), {{"CAPSTAN_STORE", to_string(server_.endpoint())},
                                       {"CAPSTAN_SECRET", secret_}});
    return variables;
  }

  /// Ranks read no terminal.
  static bool own_input() { return ::isatty(STDIN_FILENO) == 0; }

  const LaunchOptions& options_;
  const Settings settings_;
  OrphanGuard guard_;  // before signals are blocked and the store has its threads
  const SignalSource signals_;
  const std::string secret_;
  StoreServer server_;
  Job job_;
};

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.ranks < 1) throw InvalidArgument("a job needs at least one rank: -n 1");
  if (options.command.empty())
    throw InvalidArgument("no program to run: capstan run -n 4 -- PROGRAM");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  try {
    return Launcher{options}.run();
  } catch (const CannotRun& error) {
    complain("capstan run: {}\n", error.what());
    return error.status();
  }
}

}  // namespace capstan::launcher
