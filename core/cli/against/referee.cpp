#include "core/cli/against/referee.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/ir/error.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {

using against::Answer;
using against::Hello;
using against::Order;

namespace {

constexpr std::chrono::seconds to_start{60}, to_answer{300};

std::string temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "capstan-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw SystemError("cannot make a temporary folder");
  return name;
}

}  // namespace

Referee::Referee(std::vector<PlayerSpec> players, int ranks)
    : ranks_(ranks),
      name_(fmt::format("capstan-referee-{}", ::getpid())),
      store_(temporary_folder()),
      memory_(::memfd_create("capstan-bound", MFD_CLOEXEC)) {
  for (PlayerSpec& spec : players) players_.push_back({std::move(spec)});
  listen();
  for (std::size_t i = 0; i < players_.size(); ++i) start(i);
  accept_all();
  begin();
}

Referee::~Referee() {
  for (Player& player : players_) player.ranks.clear();  // they end when the referee hangs up
  for (Player& player : players_) {
    if (player.child.pid <= 0) continue;
    pollfd ended{player.child.pidfd.get(), POLLIN, 0};
    const auto deadline = Deadline::in(std::chrono::seconds{5});
    while (::poll(&ended, 1, 10) == 0 && !deadline.expired()) forward_output(player);
    ::kill(-player.child.pid, SIGKILL);
    ::waitpid(player.child.pid, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(store_, ignored);
}

void Referee::listen() {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name_.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  listener_ = FileDescriptor{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), 1024) != 0)
    throw SystemError(fmt::format("cannot listen for players: {}", std::strerror(errno)));
}

void Referee::start(std::size_t index) {
  Player& player = players_[index];
  const std::string folder = fmt::format("{}/{}", store_, index);
  std::filesystem::create_directory(folder);
  auto environment = player.spec.environment;
  environment.insert(environment.end(), {{against::socket_variable, name_},
                                         {against::player_variable, std::to_string(index)},
                                         {against::memory_variable,
                                          fmt::format("/proc/{}/fd/{}", ::getpid(), memory_.get())},
                                         {"CAPSTAN_GLOO_STORE", folder}});
  player.ranks.resize(static_cast<std::size_t>(ranks_));
  for (int stream = 0; stream < 2; ++stream)
    player.output.emplace_back(fmt::format("[{}] ", player.spec.name), STDERR_FILENO);
  try {
    player.child =
        start_child({.command = player.spec.command(), .environment = environment, .cpus = {}});
  } catch (const Error& error) {
    player.out = error.what();
  }
}

void Referee::accept_all() {
  const auto deadline = Deadline::in(to_start);
  const auto missing = [](const Player& player) {
    return !player.out && !std::ranges::all_of(player.ranks, &FileDescriptor::valid);
  };
  while (std::ranges::any_of(players_, missing) && !deadline.expired()) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 50) > 0) accept_one();
    for (Player& player : players_) {
      if (player.out) continue;
      forward_output(player);
      pollfd ended{player.child.pidfd.get(), POLLIN, 0};
      if (::poll(&ended, 1, 0) > 0) dismiss(player, "it ended before it had started its ranks");
    }
  }
  for (Player& player : players_)
    if (missing(player))
      dismiss(player, fmt::format("its ranks did not start within {} s", to_start.count()));
}

void Referee::accept_one() {
  FileDescriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  ucred peer{};
  socklen_t length = sizeof peer;
  Hello hello{};
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      peer.uid != ::geteuid())
    return;
  pollfd ready{socket.get(), POLLIN, 0};
  if (::poll(&ready, 1, 5000) <= 0 || ::recv(socket.get(), &hello, sizeof hello, 0) != sizeof hello)
    return;
  if (hello.player < 0 || static_cast<std::size_t>(hello.player) >= players_.size() ||
      hello.rank < 0 || hello.rank >= ranks_)
    return;
  players_[static_cast<std::size_t>(hello.player)].ranks[static_cast<std::size_t>(hello.rank)] =
      std::move(socket);
}

/// All players at once: joining takes some of them a second.
void Referee::begin() {
  const auto places = place_ranks(Machine::discover(), ranks_);
  const auto deadline = Deadline::in(to_start);
  for (Player& player : players_)
    for (std::size_t rank = 0; rank < player.ranks.size() && !player.out; ++rank) {
      Order order{.kind = Order::Kind::begin};
      to_string(places[rank]).copy(order.processors, sizeof order.processors - 1);
      static_cast<void>(!::send(player.ranks[rank].get(), &order, sizeof order, MSG_NOSIGNAL));
    }
  for (Player& player : players_)
    for (std::size_t rank = 0; rank < player.ranks.size() && !player.out; ++rank) {
      Answer answer;
      if (!wait_for(player, player.ranks[rank], deadline) ||
          ::recv(player.ranks[rank].get(), &answer, sizeof answer, 0) != sizeof answer)
        dismiss(player, fmt::format("its rank {} did not join", rank));
      else if (answer.failed)
        dismiss(player, fmt::format("its rank {} failed: {}", rank, answer.text));
    }
}

Answer Referee::order(std::size_t index, const Order& order) {
  Player& player = players_[index];
  Answer result;
  for (const FileDescriptor& rank : player.ranks)
    static_cast<void>(!::send(rank.get(), &order, sizeof order, MSG_NOSIGNAL));
  const auto deadline = Deadline::in(to_answer);
  for (std::size_t rank = 0; rank < player.ranks.size() && !player.out; ++rank) {
    Answer answer;
    if (!wait_for(player, player.ranks[rank], deadline)) {
      dismiss(player,
              fmt::format("its rank {} did not answer within {} s", rank, to_answer.count()));
    } else if (::recv(player.ranks[rank].get(), &answer, sizeof answer, 0) != sizeof answer) {
      dismiss(player, fmt::format("its rank {} ended", rank));
    } else {
      result.seconds = std::max(result.seconds, answer.seconds);
      result.wrong += answer.wrong;
      if (answer.failed) result = answer;
    }
  }
  if (player.out) {
    result.failed = 1;
    player.out->copy(result.text, sizeof result.text - 1);
  }
  return result;
}

/// Until a rank has something to say, or has gone. What the player writes is passed on meanwhile.
bool Referee::wait_for(Player& player, FileDescriptor& rank, const Deadline& deadline) {
  while (!deadline.expired()) {
    pollfd ready[] = {{rank.get(), POLLIN, 0},
                      {player.child.output.get(), POLLIN, 0},
                      {player.child.errors.get(), POLLIN, 0}};
    ::poll(ready, 3, deadline.poll_timeout());
    if (ready[1].revents || ready[2].revents) forward_output(player);
    if (ready[0].revents) return true;
  }
  return false;
}

void Referee::forward_output(Player& player) {
  FileDescriptor* const streams[] = {&player.child.output, &player.child.errors};
  for (std::size_t i = 0; i < 2; ++i) {
    pollfd ready{streams[i]->get(), POLLIN, 0};
    char text[4096];
    if (::poll(&ready, 1, 0) <= 0) continue;
    const ssize_t got = ::read(streams[i]->get(), text, sizeof text);
    if (got > 0)
      player.output[i].take({text, static_cast<std::size_t>(got)});
    else
      player.output[i].finish(), streams[i]->reset();
  }
}

void Referee::dismiss(Player& player, const std::string& reason) {
  forward_output(player);
  player.out = reason;
  for (FileDescriptor& rank : player.ranks) rank.reset();
  if (player.child.pid > 0) ::kill(-player.child.pid, SIGKILL);
}

}  // namespace capstan::cli
