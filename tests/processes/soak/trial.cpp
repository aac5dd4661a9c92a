// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/soak/trial.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include "tests/processes/soak/rank.hpp"

namespace capstan::soak {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Bounds on a machine that is busy with other things: what takes longer hangs.
constexpr milliseconds most_for_start = 90s;
constexpr milliseconds most_beyond_deadline = 30s;
constexpr milliseconds most_for_end = 40s;

constexpr milliseconds time_of_slowness = 700ms;

/// Ranks that follow one another get unlike ports, so that a run never meets the one before.
int port_of(const Scenario& scenario) {
  constexpr std::uint64_t first = 5000, count = 20'000;
  return static_cast<int>(first + scenario.seed * std::size(all_faults) % count) +
         static_cast<int>(scenario.fault);
}

}  // namespace

Trial::Trial(const Testbed& testbed, const Scenario& scenario, std::string network)
    : testbed_(testbed), scenario_(scenario), network_(std::move(network)) {}

void Trial::start_ranks() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (int rank = 0; rank < scenario_.ranks(); ++rank) {
    std::vector<std::string> command = testbed_.prefix(scenario_.host_of(rank));
    command.insert(command.end(), {self, "--rank", std::string{name_of(scenario_.fault)},
                                   std::to_string(scenario_.seed)});
    ranks_.emplace_back(
        command, std::vector<std::pair<std::string, std::string>>{
                     {"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(scenario_.ranks())},
                     {"MASTER_ADDR", testbed_.address(0)},
                     {"MASTER_PORT", std::to_string(port_of(scenario_))},
                     {"CAPSTAN_TRUSTED_NETWORK", "1"},
                     {"CAPSTAN_NETWORK", network_},
                     {"CAPSTAN_TIMEOUT", fmt::format("{}", scenario_.timeout.count() / 1000.0)},
                     {"CAPSTAN_PROGRESS_THREAD", scenario_.progress_thread ? "1" : "0"}});
  }
}

Verdict Trial::run() {
  start_ranks();
  switch (scenario_.fault) {
    case Fault::kill:
      kill_one();
      break;
    case Fault::stop:
    case Fault::blame:
      stop_one();
      break;
    case Fault::cut:
      cut_cable();
      break;
    case Fault::slow:
      be_slow();
      break;
  }
  for (int rank = 0; rank < scenario_.ranks(); ++rank) judge(rank);
  for (int rank = 0; rank < scenario_.ranks(); ++rank)
    for (const auto& line : ranks_[static_cast<std::size_t>(rank)].lines())
      verdict_.transcript += fmt::format("    rank {}: {}\n", rank, line.text);
  ranks_.clear();
  look_for_leftovers();
  return std::move(verdict_);
}

template <class Condition>
bool Trial::until(Condition condition, milliseconds at_most) {
  const auto end = Clock::now() + at_most;
  while (true) {
    for (WatchedRank& rank : ranks_) rank.look();
    if (condition()) return true;
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
}

void Trial::pass(milliseconds time) {
  until([] { return false; }, time);
}

bool Trial::survives(int rank) const {
  const bool dies = scenario_.fault == Fault::kill || scenario_.stops();
  return !dies || rank != scenario_.victim;
}

// --- Faults ---

void Trial::kill_one() {
  if (!until([&] { return victim().ended().has_value(); }, most_for_start))
    return complain("the victim did not come to its moment");
  if (victim().status() != 128 + SIGKILL)
    return complain(fmt::format("the victim ended by itself, with {}", victim().status()));
  await_survivors(*victim().ended());
  await_end("survivor");
}

void Trial::stop_one() {
  if (!until([&] { return victim().stopped().has_value(); }, most_for_start))
    return complain("the victim did not come to its moment");
  await_survivors(*victim().stopped());
  const auto others_ended = [&] {
    return std::ranges::all_of(
        ranks_, [&](const auto& r) { return &r == &victim() || r.ended().has_value(); });
  };
  if (!until(others_ended, most_for_end)) complain("a survivor does not end");
  if (!scenario_.resumes) return;
  victim().send(SIGCONT);
  if (!until([&] { return victim().said(says_error) != nullptr; },
             scenario_.timeout + most_beyond_deadline))
    complain("the stopped rank got no error when it went on");
  await_end("stopped rank");
}

bool Trial::await_moment() {
  if (until([&] { return victim().said(says_now) != nullptr; }, most_for_start)) {
    std::this_thread::sleep_for(scenario_.delay);
    return true;
  }
  complain("the victim did not come to its moment");
  return false;
}

void Trial::cut_cable() {
  if (!await_moment()) return;
  const int host = scenario_.host_of(scenario_.victim);
  testbed_.cut(host);
  await_survivors(Clock::now());
  await_end("rank");
  testbed_.restore(host);
}

void Trial::be_slow() {
  if (!await_moment()) return;
  const int host = scenario_.host_of(scenario_.victim);
  switch (scenario_.slowness) {
    case Slowness::pauses:
      pause_again_and_again();
      break;
    case Slowness::flap:
      testbed_.cut(host);
      pass(scenario_.pause);
      testbed_.restore(host);
      break;
    case Slowness::rate:
      testbed_.limit_rate(host, scenario_.rate_kbit);
      pass(time_of_slowness);
      testbed_.unlimit_rate(host);
      break;
    case Slowness::standstill:
      testbed_.limit_rate(host, scenario_.rate_kbit);
      await_survivors(Clock::now());
      await_end("rank");
      return testbed_.unlimit_rate(host);
  }
  ranks_.front().send(SIGUSR1);
  await_end("rank");
}

void Trial::pause_again_and_again() {
  const auto end = Clock::now() + time_of_slowness;
  while (Clock::now() < end) {
    victim().send(SIGSTOP);
    pass(scenario_.pause);
    victim().send(SIGCONT);
    pass(scenario_.pause / 4);
  }
}

// --- What is expected ---

void Trial::await_survivors(Clock::time_point fault) {
  const milliseconds deadline = scenario_.fault == Fault::kill ? 0ms : scenario_.timeout;
  const auto all_told = [&] {
    for (int rank = 0; rank < scenario_.ranks(); ++rank)
      if (survives(rank) && !ranks_[static_cast<std::size_t>(rank)].said(says_error)) return false;
    return true;
  };
  if (!until(all_told, deadline + most_beyond_deadline)) complain("a survivor was told nothing");
  for (const WatchedRank& rank : ranks_)
    if (const auto* line = rank.said(says_error); line && &rank != &victim())
      verdict_.told = std::max<std::chrono::duration<double>>(verdict_.told, line->when - fault);
}

void Trial::await_end(const std::string& of_whom) {
  const auto all_ended = [&] {
    return std::ranges::all_of(ranks_,
                               [](const WatchedRank& rank) { return rank.ended().has_value(); });
  };
  if (!until(all_ended, most_for_end)) complain(fmt::format("a {} does not end", of_whom));
}

void Trial::judge(int rank) {
  const WatchedRank& which = ranks_[static_cast<std::size_t>(rank)];
  for (const auto& line : which.lines())
    if (line.text.starts_with(says_wrong)) complain(fmt::format("rank {}: {}", rank, line.text));
  if (!survives(rank) && !(scenario_.stops() && scenario_.resumes)) return;
  if (which.ended() && (which.status() != 0 || !which.said(says_left)))
    complain(fmt::format("rank {} ended with status {}", rank, which.status()));
  const auto* error = which.said(says_error);
  if (scenario_.ends_well()) {
    if (!which.said(says_right)) complain(fmt::format("rank {} did not end well", rank));
  } else if (error && survives(rank)) {
    judge_error(rank, error->text.substr(says_error.size()));
  }
}

/// Whether PeerLost may name `lost` to `rank`.
bool Trial::may_lose(int rank, int lost) const {
  switch (scenario_.fault) {
    case Fault::kill:
      return lost == scenario_.victim;
    case Fault::stop:
    case Fault::blame:
      return false;  // it is alive
    case Fault::cut:
    case Fault::slow:
      break;
  }
  // Behind the cable, seen from either side.
  const int host = scenario_.host_of(scenario_.victim);
  return (scenario_.host_of(rank) == host) != (scenario_.host_of(lost) == host);
}

void Trial::judge_error(int rank, const std::string& error) {
  const auto space = error.find(' ');
  const std::string kind = error.substr(0, space);
  int lost = -1;
  std::from_chars(error.data() + space + 1, error.data() + error.size(), lost);
  const bool right = kind == "PeerLost" ? may_lose(rank, lost)
                                        : kind == "TimedOut" && scenario_.fault != Fault::kill;
  if (!right) return complain(fmt::format("rank {}: not the right error: {}", rank, error));
  if (scenario_.stops() || scenario_.fault == Fault::kill) judge_culprits(rank, error);
}

/// Whoever waits blames the rank that has stopped or died, and nobody else.
void Trial::judge_culprits(int rank, const std::string& error) {
  const auto second = error.find(' ', error.find(' ') + 1);
  const auto third = std::min(error.find(' ', second + 1), error.size());
  const std::string culprits = error.substr(second + 1, third - second - 1);
  if (culprits != std::to_string(scenario_.victim))
    complain(
        fmt::format("rank {}: blames {}, not {}: {}", rank, culprits, scenario_.victim, error));
}

void Trial::look_for_leftovers() {
  std::vector<std::string> left;
  const auto nothing_left = [&] { return (left = testbed_.leftovers()).empty(); };
  if (until(nothing_left, 2s)) return;
  for (const std::string& one : left) complain("left behind: " + one);
}

}  // namespace capstan::soak
