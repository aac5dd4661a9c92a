// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/deaths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream words{list};
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(std::stoi(word));
  return numbers;
}

/// The kernel's letter: 'T' of one that is stopped, 'Z' of one that has ended, 'X' where there is
/// none.
char state_of(int process) {
  std::ifstream file{fmt::format("/proc/{}/stat", process)};
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? 'X' : text[end + 2];
}

void await(const std::vector<std::int32_t>& processes, std::string_view states) {
  const auto is_there = [&](int process) { return states.find(state_of(process)) != states.npos; };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!std::ranges::all_of(processes, is_there) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

/// A process beside the ranks that stops all of them, kills the victims and lets the others run on.
class Killer {
 public:
  Killer(int ranks, std::vector<int> victims) {
    if (::pipe(ends_) != 0) std::abort();
    if (::fork() != 0) return;
    std::vector<std::int32_t> processes(static_cast<std::size_t>(ranks));
    const auto bytes = static_cast<ssize_t>(processes.size() * sizeof processes[0]);
    ::close(ends_[1]);
    if (::read(ends_[0], processes.data(), static_cast<std::size_t>(bytes)) == bytes)
      strike(processes, victims);
    ::_exit(0);
  }

  void begin(const std::vector<std::int32_t>& processes) {
    if (::write(ends_[1], processes.data(), processes.size() * sizeof processes[0]) < 0)
      std::abort();
  }

 private:
  static void strike(const std::vector<std::int32_t>& processes, const std::vector<int>& victims) {
    for (const int process : processes) ::kill(process, SIGSTOP);
    await(processes, "TZX");
    std::vector<std::int32_t> dead;
    for (const int victim : victims) dead.push_back(processes[static_cast<std::size_t>(victim)]);
    for (const int process : dead) ::kill(process, SIGKILL);
    await(dead, "ZX");
    for (const int process : processes) ::kill(process, SIGCONT);
  }

  int ends_[2]{};
};

}  // namespace

class MessagesToTheDead {
 public:
  MessagesToTheDead(Communicator& world, bool patient)
      : world_(world), half_(world.split(world.rank()).value()), patient_(patient) {}

  void try_named() {
    attempt("receive", [&] { world_.receive(one_, victim, 7); });
    attempt("probe", [&] { world_.probe(victim, 7); });
    if (patient_) return;  // who asks without waiting has no time-out
    try_send();
    attempt("receive again", [&] { world_.receive(one_, victim, 7); });
    attempt("long receive", [&] { world_.receive(long_, victim, 7); });
    attempt("asking", [&] {
      while (!world_.try_probe(victim, 7)) std::this_thread::yield();
    });
    try_asking("is_completed", [](const Work& work) { return work.is_completed(); });
    try_asking("wait_for 0", [](const Work& work) { return work.wait_for(0s); });
    try_asking("wait_for 1 us", [](const Work& work) { return work.wait_for(1us); });
    try_asking("wait_any", [](const Work& work) {
      return Work::wait_any({&work, 1}, Deadline::in(0s)).has_value();
    });
    try_asking("wait_all of two groups", [this](const Work& work) {
      const Work other = half_.start_barrier();
      other.wait();
      return Work::wait_all(std::vector{work, other}, Deadline::in(0s));
    });
    attempt("exchange", [&] {
      world_.exchange({Message::to(victim, one_, 8), Message::from(victim, long_, 8)});
    });
  }
  /// One that is late fails the communicator.
  void try_send() {
    attempt("send", [&] { world_.send(long_, victim, 7); });
  }
  void try_any() {
    attempt("receive of any", [&] { world_.receive(one_); });
    attempt("probe of any", [&] { world_.probe(); });
    attempt("asking any", [&] {
      while (!world_.try_probe()) std::this_thread::yield();
    });
  }

  static constexpr int victim = 2;

 private:
  /// A program that asks in a loop whether a receive has ended.
  template <class Ask>
  void try_asking(const char* name, const Ask& ask) {
    attempt(name, [&] {
      const Work work = world_.start_receive(one_, victim, 7);
      while (!ask(work)) std::this_thread::yield();
      work.wait();
    });
  }

  template <class Call>
  static void attempt(const char* name, const Call& call) {
    try {
      call();
      fmt::print("{} has ended\n", name);
    } catch (const PeerError& error) {
      std::vector<int> culprits;
      for (const Culprit& culprit : error.culprits())
        culprits.push_back(culprit.world_rank.value());
      fmt::print("{} lost {}: {}\n", name, fmt::join(culprits, ","), error.what());
    }
    std::fflush(nullptr);
  }

  Communicator& world_;
  Communicator half_;  // of this rank alone
  const bool patient_;
  std::vector<float> one_ = std::vector<float>(1), long_ = std::vector<float>(1'000'000);
};

/// A barrier has ended on one rank before it has on all: another may still need a packet of a rank
/// that is about to die.
void await_survivors_of_the_barrier(Communicator& world) {
  std::vector<Message> messages;
  std::int32_t own = world.rank();
  std::vector<std::int32_t> theirs(MessagesToTheDead::victim);
  for (int survivor = 0; survivor < MessagesToTheDead::victim; ++survivor) {
    if (world.rank() == survivor) continue;
    const auto place = static_cast<std::size_t>(survivor);
    messages.push_back(Message::from(survivor, std::span{&theirs[place], 1}, 9));
  }
  if (world.rank() < MessagesToTheDead::victim)
    for (int rank = 0; rank < world.size(); ++rank)
      if (world.rank() != rank) messages.push_back(Message::to(rank, std::span{&own, 1}, 9));
  world.exchange(messages);
}

int outlive_in_messages(const std::string& how) {
  const int rank = std::atoi(std::getenv("CAPSTAN_RANK"));
  std::optional<Killer> killer;  // before this process has threads
  if (rank == 0 && how == "kill") killer.emplace(4, std::vector<int>{2, 3});
  std::optional<Communicator> world = Communicator::from_environment();
  const std::int32_t own = ::getpid();
  std::vector<std::int32_t> processes(4);
  world->all_gather(std::span{&own, 1}, std::span{processes});
  MessagesToTheDead messages{*world, how == "stop"};
  world->barrier();
  await_survivors_of_the_barrier(*world);
  const std::vector<std::int32_t> victims{processes[2], processes[3]};
  if (rank >= MessagesToTheDead::victim) {
    if (how == "leave") return 0;
    if (how == "stop") ::raise(SIGSTOP);
    while (true) ::pause();
  }
  if (killer) killer->begin(processes);
  if (how == "stop") await(victims, "T");
  if (how == "leave") await(victims, "ZX");
  messages.try_named();
  std::int32_t done = rank;
  if (rank == 0) {
    world->receive(std::span{&done, 1}, 1, 9);
    how == "stop" ? messages.try_send() : messages.try_any();
    for (const int process : victims) ::kill(process, SIGKILL);
  } else {
    world->send(std::span{&done, 1}, 0, 9);
  }
  return 0;
}

int outlive(const std::string& victims, bool broadcasts) {
  const std::vector<int> dying = numbers_of(victims);
  const int rank = std::atoi(std::getenv("CAPSTAN_RANK"));
  const int ranks = std::atoi(std::getenv("CAPSTAN_SIZE"));
  int first_survivor = 0;
  while (std::ranges::find(dying, first_survivor) != dying.end()) ++first_survivor;
  std::optional<Killer> killer;  // before this process has threads
  if (rank == first_survivor) killer.emplace(ranks, dying);

  Communicator world = Communicator::from_environment();
  const std::int32_t own = ::getpid();
  std::vector<std::int32_t> processes(static_cast<std::size_t>(ranks));
  world.all_gather(std::span{&own, 1}, std::span{processes});
  std::vector<float> data(1000, 1);
  try {
    for (int i = 0;; ++i) {
      if (i == 50 && killer) killer->begin(processes);
      if (broadcasts)
        world.broadcast(std::span{data}, 0);
      else
        world.all_reduce(std::span{data}, ReduceOp::max);
    }
  } catch (const PeerLost& error) {
    std::vector<int> culprits;
    for (const Culprit& culprit : error.culprits()) culprits.push_back(culprit.world_rank.value());
    fmt::print("lost {}: {}\n", fmt::join(culprits, ","), error.what());
  }
  return 0;
}

}  // namespace capstan
