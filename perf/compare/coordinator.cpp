#include "perf/compare/coordinator.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan::cli {

using against::Answer;
using against::Order;

namespace {

constexpr std::chrono::seconds to_join = against::time_to_meet + std::chrono::seconds{10};
constexpr std::chrono::seconds to_answer{300}, to_end{5};
/// How often a player that says nothing is looked after.
constexpr std::chrono::milliseconds glance{250};

bool ended(const Child& child) {
  pollfd entry{child.pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

void forward_output(Child& child, std::vector<LineForwarder>& to) {
  FileDescriptor* const streams[] = {&child.output, &child.errors};
  for (std::size_t i = 0; i < 2; ++i) {
    pollfd ready{streams[i]->get(), POLLIN, 0};
    while (::poll(&ready, 1, 0) > 0) {
      char text[4096];
      const ssize_t got = ::read(streams[i]->get(), text, sizeof text);
      if (got > 0) {
        to[i].take({text, static_cast<std::size_t>(got)});
        continue;
      }
      to[i].finish();
      streams[i]->reset();
      break;
    }
  }
}

bool ends_within(Child& child, std::vector<LineForwarder>& output, const Deadline& deadline) {
  pollfd entry{child.pidfd.get(), POLLIN, 0};
  while (::poll(&entry, 1, 10) == 0 && !deadline.expired()) forward_output(child, output);
  forward_output(child, output);
  return ended(child);
}

/// A launcher that is asked to end ends its ranks on other hosts, too.
void end(Child& child, std::vector<LineForwarder>& output) {
  if (child.pid <= 0) return;
  if (!ends_within(child, output, Deadline::in(to_end))) {
    ::kill(child.pid, SIGTERM);
    ends_within(child, output, Deadline::in(to_end));
  }
  ::kill(-child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
  child.pid = -1;
}

}  // namespace

Referee::Referee(std::vector<PlayerSpec> players, int ranks, const std::string& address)
    : ranks_(ranks),
      secret_(random_text()),
      server_({.endpoint = TcpEndpoint{address, 0}, .secret = Secret::from_text(secret_)}) {
  for (PlayerSpec& spec : players) {
    const std::string scope = fmt::format("player-{}", players_.size());
    players_.push_back({.spec = std::move(spec), .scope = scope});
  }
  // One after the other: two mpirun that start at once may trip over each other's temporary files.
  for (Player& player : players_) {
    start(player);
    join(player, Deadline::in(to_join));
  }
}

Referee::~Referee() {
  server_.stop();  // then the ranks end
  for (Player& player : players_) end(player.child, player.output);
}

void Referee::start(Player& player) {
  auto environment = player.spec.environment;
  environment.insert(environment.end(), {{against::referee_variable, to_string(server_.endpoint())},
                                         {against::secret_variable, secret_},
                                         {against::player_variable, player.scope}});
  for (int stream = 0; stream < 2; ++stream)
    player.output.emplace_back(fmt::format("[{}] ", player.spec.name), STDERR_FILENO);
  try {
    player.table =
        std::make_unique<StoreClient>(StoreClient::Settings{.endpoint = server_.endpoint(),
                                                            .secret = Secret::from_text(secret_),
                                                            .scope = player.scope},
                                      Deadline::in(to_answer));
    player.child =
        start_child({.command = player.spec.command(), .environment = environment, .cpus = {}});
  } catch (const Error& error) {
    player.out = error.what();
  }
}

void Referee::join(Player& player, const Deadline& deadline) {
  for (int rank = 0; rank < ranks_ && !player.out; ++rank) {
    const auto answer = await(player, rank, deadline);
    if (answer && answer->failed)
      dismiss(player, fmt::format("its rank {} did not join: {}", rank, answer->text));
  }
}

Answer Referee::order(std::size_t index, const Order& order) {
  Player& player = players_[index];
  Answer result;
  if (!player.out) {
    ++player.orders;
    player.table->put(against::order_key(player.orders), against::encode(order));
  }
  const auto deadline = Deadline::in(to_answer);
  for (int rank = 0; rank < ranks_ && !player.out; ++rank) {
    const auto answer = await(player, rank, deadline);
    if (!answer) break;
    result.seconds = std::max(result.seconds, answer->seconds);
    result.wrong += answer->wrong;
    if (answer->failed || rank == 0) std::ranges::copy(answer->text, result.text);
    result.failed |= answer->failed;
  }
  if (player.out) {
    result.failed = 1;
    against::write(result, *player.out);
  }
  return result;
}

/// A rank's answer to the last order; without one in time the player is out. What it writes is
/// passed on meanwhile.
std::optional<Answer> Referee::await(Player& player, int rank, const Deadline& deadline) {
  const std::string key = against::answer_key(player.orders, rank);
  while (true) {
    const bool over = ended(player.child), late = deadline.expired();
    forward_output(player.child, player.output);
    try {
      return against::decode<Answer>(player.table->get(key, Deadline::in(glance).clamp(deadline)));
    } catch (const TimedOut&) {
      if (!over && !late) continue;
      dismiss(player,
              over ? fmt::format("it ended before its rank {} had answered", rank)
                   : fmt::format("its rank {} did not answer within {}", rank, deadline.budget()));
    } catch (const BootstrapError& error) {
      dismiss(player, error.what());
    }
    return std::nullopt;
  }
}

/// Ranks that wait for an order end by themselves, as their table is gone.
void Referee::dismiss(Player& player, const std::string& reason) {
  player.out = reason;
  server_.close_scope(player.scope);
  end(player.child, player.output);
}

}  // namespace capstan::cli
