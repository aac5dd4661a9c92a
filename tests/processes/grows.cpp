// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/grows.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/bootstrap/meeting.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr int members = 4, rounds = 4;

MeetingPlace place_of(const Fire& fire) {
  return {.id = {}, .name = fire.name, .secret = "a secret that only this test has"};
}

/// One process is hit some time after it begins a step for the n-th time.
struct Hit {
  enum class Step { call, shrink, grow, join };

  Step step = Step::call;
  int occurrence = 0;
  microseconds delay{}, stopped_for{};  // the latter 0: it is killed
};

/// The hits of a seed, by the number of the process: the same in all of them. The first is a death
/// of a member, so that others shrink and grow; one member is spared, which the launcher waits for.
std::map<int, Hit> hits_of(const Fire& fire) {
  std::mt19937 random{fire.seed};
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  std::map<int, Hit> hits;
  const int first = below(members), spared = (first + 1) % members;
  hits[first] = {.delay = microseconds{below(5'000)}};
  for (int i = 0; i < 3; ++i) {
    const int number = below(fire.processes);
    if (number == spared) continue;
    Hit hit;
    const std::array steps{Hit::Step::call, Hit::Step::shrink, Hit::Step::grow};
    hit.step = number < members ? steps[static_cast<std::size_t>(below(3))] : Hit::Step::join;
    hit.occurrence = hit.step == Hit::Step::call ? below(rounds) : 0;
    const bool is_long = hit.step == Hit::Step::grow || hit.step == Hit::Step::join;
    hit.delay = microseconds{below(is_long ? 40'000 : 4'000)};
    if (below(3) == 0) hit.stopped_for = microseconds{50'000 + below(400'000)};
    hits.try_emplace(number, hit);
  }
  return hits;
}

/// Sends a signal to this process, from another one: a process that is stopped wakes nobody.
class Executioner {
 public:
  Executioner(const Fire& fire, int number) {
    const auto hits = hits_of(fire);
    if (const auto own = hits.find(number); own != hits.end()) hit_ = own->second;
  }
  /// This process begins a step.
  void begins(Hit::Step step) {
    if (!hit_ || child_ > 0 || hit_->step != step || seen_++ != hit_->occurrence) return;
    const pid_t victim = ::getpid();
    child_ = ::fork();
    if (child_ != 0) return;
    ::close_range(3, ~0U, 0);  // nobody takes the copies of sockets for this process
    ::usleep(static_cast<useconds_t>(hit_->delay.count()));
    ::kill(victim, hit_->stopped_for > 0us ? SIGSTOP : SIGKILL);
    ::usleep(static_cast<useconds_t>(hit_->stopped_for.count()));
    ::kill(victim, SIGCONT);
    ::_exit(0);
  }
  /// Nothing hits this process any more.
  void await() {
    if (child_ > 0) ::waitpid(std::exchange(child_, -1), nullptr, 0);
    hit_.reset();
  }

 private:
  std::optional<Hit> hit_;
  int seen_ = 0;
  pid_t child_ = -1;
};

/// Throws PeerLost.
bool sum_is_right(Communicator& group) {
  std::vector<int> sums(1000, group.rank() + 1);
  group.all_reduce(std::span{sums});
  return std::ranges::count(sums, group.size() * (group.size() + 1) / 2) == 1000;
}

/// The loop that members and those that have joined run.
class Loop {
 public:
  Loop(Communicator world, const Fire& fire, Executioner& executioner)
      : current_(std::move(world)), fire_(fire), executioner_(executioner) {}

  int run() {
    while (!done_ && right_) try {
        step();
      } catch (const PeerLost&) {
        if (!done_) shrink();
      } catch (const Mismatch&) {  // others have seen the loss
        shrink();
      } catch (const BootstrapError& error) {  // all members have it, and stay together
        fmt::print("did not grow: {}\n", error.what());
      } catch (const SystemError& error) {
        fmt::print("did not grow: {}\n", error.what());
      }
    return right_ ? 0 : 1;
  }

 private:
  /// Throws what ends the call, on all members alike where it is to grow.
  void step() {
    current_.all_reduce(std::span{&round_, 1}, ReduceOp::max);
    right_ = right_ && sum_is_right(current_);
    if (current_.size() < members) return grow();
    executioner_.begins(Hit::Step::call);
    for (int call = 0; call < 20; ++call) right_ = right_ && sum_is_right(current_);
    if (++round_ <= rounds) return;
    executioner_.await();
    done_ = right_ && sum_is_right(current_);
    if (!done_) return;
    fmt::print("done\n");
    std::fflush(stdout);
    current_.barrier();
  }

  void grow() {
    executioner_.begins(Hit::Step::grow);
    const auto began = std::chrono::steady_clock::now();
    current_ = current_.grow(1, place_of(fire_));
    fmt::print("grow took {} ms\n", std::chrono::round<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now() - began)
                                        .count());
  }

  void shrink() {
    executioner_.begins(Hit::Step::shrink);
    current_ = current_.shrink({.exclude = {}, .minority_continues = true});  // all have died
  }

  Communicator current_;
  const Fire& fire_;
  Executioner& executioner_;
  int round_ = 0;
  bool right_ = true, done_ = false;
};

/// The step of joining begins when members meet.
void hit_when_members_meet(const Fire& fire, Executioner& executioner) {
  const MeetingPoint meeting = meeting_at(place_of(fire), {});
  while (!is_own_listener(std::get<AbstractEndpoint>(meeting.endpoint)))
    std::this_thread::sleep_for(200us);
  executioner.begins(Hit::Step::join);
}

}  // namespace

int grow_under_fire(Communicator world, const Fire& fire) {
  Executioner executioner{fire, world.rank()};
  return Loop{std::move(world), fire, executioner}.run();
}

int join_under_fire(const Fire& fire, int number) {
  Executioner executioner{fire, number};
  hit_when_members_meet(fire, executioner);
  while (true) try {
      return Loop{Communicator::join_growing(place_of(fire)), fire, executioner}.run();
    } catch (const BootstrapError& error) {  // a member or another new rank has died
      fmt::print("did not join: {}\n", error.what());
    }
}

}  // namespace capstan
