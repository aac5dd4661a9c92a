// SPDX-License-Identifier: Apache-2.0

// Ranks that fork, and what their children may do.

#include "tests/processes/lifetime.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {
namespace {

// As programs have them: destroyed by exit(), in children, too.
std::optional<Communicator> world;
std::optional<Communicator> half;
std::vector<Work> pending;
SharedBuffer<std::int32_t> shared;

[[noreturn]] void child_fails(const std::string& why) {
  fmt::print("child: {}\n", why);
  std::fflush(nullptr);
  ::_exit(1);
}

/// A call that a child must not make: it is refused at once, and the parent named.
void expect_refusal(const char* what, const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    if (text.find(fmt::format("process {}", ::getppid())) != text.npos) return;
    child_fails(fmt::format("{} says: {}", what, text));
  } catch (const std::exception& error) {
    child_fails(fmt::format("{} throws: {}", what, error.what()));
  }
  child_fails(fmt::format("{} is not refused", what));
}

void try_everything() {
  std::vector<std::int32_t> data(4, 1), lots(100'000, 1);
  expect_refusal("all_reduce", [&] { world->all_reduce(data); });
  expect_refusal("a long all_reduce", [&] { world->all_reduce(lots); });
  expect_refusal("a call of a group", [&] { half->barrier(); });
  expect_refusal("start_all_reduce", [&] { (void)world->start_all_reduce(data); });
  expect_refusal("send", [&] { world->send(data, 0); });
  expect_refusal("try_probe", [&] { (void)world->try_probe(); });
  expect_refusal("probe", [&] { (void)world->probe(); });
  expect_refusal("split", [&] { (void)world->split(0); });
  expect_refusal("allocate", [&] { (void)world->allocate<int>(10); });
  for (const Work& work : pending) {
    if (work.has_ended()) continue;
    expect_refusal("is_completed", [&] { (void)work.is_completed(); });
    expect_refusal("wait", [&] { work.wait(); });
    expect_refusal("cancel", [&] { (void)work.cancel(); });
    expect_refusal("on_complete", [&] { work.on_complete([](const Work&) {}); });
    expect_refusal("future", [&] { (void)work.future(); });
  }
  const int rank = world->rank();
  if (rank < 0 || rank >= world->size()) child_fails("the rank is wrong");
  for (std::size_t i = 0; i < shared.size(); ++i)
    if (shared[i] != static_cast<std::int32_t>(i) + rank) child_fails("its buffer is not readable");
}

void drop_everything() {
  pending.clear();
  shared = {};
  half.reset();
  world.reset();
}

void join_anew() {
  world = Communicator::join(create_unique_id("127.0.0.1"), 0, 1);
  std::vector<std::int32_t> data{3};
  world->all_reduce(data);
  if (data.front() != 3) child_fails("its own world is wrong");
}

bool is_child = false;

/// Does not come back, except from "return".
void be_a_child(const std::string& deed) {
  is_child = true;
  ::alarm(100);
  if (deed == "return") return;
  if (deed == "destroy") drop_everything();
  if (deed == "call" && world) try_everything();
  if (deed == "join") join_anew();
  if (deed == "exec") ::execl("/bin/true", "true", nullptr);
  if (deed == "exit") std::exit(0);
  ::_exit(0);
}

std::vector<pid_t> children;

/// True in a child that continues.
bool fork_now(const std::string& deed) {
  const pid_t child = ::fork();
  if (child == 0) {
    be_a_child(deed);
    return true;
  }
  children.push_back(child);
  return false;
}

bool children_are_content() {
  return std::ranges::all_of(children, [](pid_t child) {
    int status = 0;
    const bool ended = ::waitpid(child, &status, 0) == child && status == 0;
    if (!ended) fmt::print("a child ended with status {:#x}\n", status);
    return ended;
  });
}

/// Calls of all kinds, each with a result that is known.
bool goes_on(int calls) {
  const int rank = world->rank(), size = world->size();
  const auto sum_of = [&](std::int32_t i) { return size * i + size * (size - 1) / 2; };
  for (int i = 0; i < calls; ++i) {
    std::vector<std::int32_t> data(i % 7 == 0 ? 50'000 : 1 + i % 5, i + rank), sums(data.size());
    world->all_reduce(data, sums);
    if (std::ranges::count(sums, sum_of(i)) != static_cast<std::ptrdiff_t>(sums.size()))
      return false;
    std::vector<std::int32_t> got(data.size());
    world->exchange(
        {Message::to((rank + 1) % size, data), Message::from((rank + size - 1) % size, got)});
    if (got.front() != i + (rank + size - 1) % size) return false;
    half->barrier();
  }
  return true;
}

void join_and_warm_up() {
  world = Communicator::from_environment();
  half = world->split(world->rank() % 2);
  shared = world->allocate<std::int32_t>(10'000);
  std::iota(shared.begin(), shared.end(), world->rank());
  if (!goes_on(20)) std::exit(1);
}

/// Operations that cannot end before the other ranks have forked as well.
bool fork_in_flight(const std::string& deed) {
  std::vector<std::int32_t> data(300'000, 1), message(300'000, world->rank()), got(300'000);
  const int size = world->size(), rank = world->rank();
  pending.push_back(world->start_receive(got, (rank + 1) % size, 5));
  pending.push_back(world->start_all_reduce(data));
  fork_now(deed);
  pending.push_back(world->start_send(message, (rank + size - 1) % size, 5));
  for (const Work& work : pending) work.wait();
  pending.clear();
  return data.front() == size && data.back() == size && got.back() == (rank + 1) % size;
}

bool fork_in_callback(const std::string& deed) {
  std::vector<std::int32_t> data(1000, 1);
  bool child = false;
  const Work work = world->start_all_reduce(data);
  work.on_complete([&](const Work&) {
    child = fork_now(deed);
    if (child && std::getenv("CAPSTAN_PROGRESS_THREAD"))
      std::exit(0);  // its thread is the only one
  });
  try {
    work.wait();
  } catch (const Error&) {  // a child that comes back into its parent's call may be told so here
    if (!child) throw;
  }
  while (children.empty() && !child) ::usleep(1000);
  if (!child) return data.front() == world->size();
  try_everything();
  ::_exit(0);
}

bool fork_in_operation(const std::string& deed) {
  std::vector<std::int32_t> data(1000, 1);
  bool forked = false, child = false;
  const auto add = [&](std::int32_t a, std::int32_t b) {
    if (!forked) {
      forked = true;
      child = fork_now(deed);
    }
    return a + b;
  };
  try {
    world->all_reduce(data, Reducer::of<std::int32_t>("add", add));
  } catch (const Error& error) {
    if (!child) throw;
    const std::string text = error.what();
    const std::string parent = fmt::format("process {}", ::getppid());
    if (text.find("it has forked") == text.npos && text.find(parent) == text.npos)
      child_fails(text);
    ::_exit(0);
  }
  if (child) child_fails("it went on with its parent's call");
  return data.front() == world->size();
}

/// A static object of a program that callbacks refer to. It is destroyed before `world`.
std::vector<std::int32_t> results(300'000, 1);
/// Operations use these until the process ends.
auto& sent = *new std::vector<std::int32_t>(300'000, 1);
auto& received = *new std::vector<std::int32_t>(300'000);
auto& summed = *new std::vector<std::int32_t>(300'000, 1);

/// Operations that cannot end, as this rank's peers do not take part. Their callbacks refer to what
/// exit() has destroyed by then.
std::vector<Work> start_without_peers(Communicator& of) {
  const int next = (of.rank() + 1) % of.size();
  std::vector<Work> started{of.start_receive(received, next, 9), of.start_send(sent, next, 8)};
  if (of.rank() == 0) started.push_back(of.start_all_reduce(summed));
  for (const Work& work : started)
    work.on_complete([](const Work&) { results.at(results.size() - 1) = 2; });
  return started;
}

/// Uses a communicator when exit() has destroyed most other objects.
struct UsedLate {
  ~UsedLate() {
    if (!world) return;
    try {
      std::vector<std::int32_t> data(100, 1);
      world->all_reduce(data, ReduceOp::max);
      if (data.front() != 1) ::_exit(1);
    } catch (const Error&) {
      ::_exit(1);
    }
  }
};

[[noreturn]] void exit_in_a_second_thread() {
  std::jthread second{[] {
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
    std::exit(0);
  }};
  std::vector<std::int32_t> data(2000, 1);
  while (true) world->all_reduce(data, ReduceOp::max);
}

}  // namespace

}  // namespace capstan

/// Children keep what threads of their parents used, which do not exist there.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __lsan_is_turned_off() {
  return capstan::is_child ? 1 : 0;
}

namespace capstan {

int end_by_exit(const std::string& how) {
  static std::vector<Work> outlive_all;  // is destroyed after a static communicator made below
  if (how == "function") {
    static Communicator local = Communicator::from_environment();
    local.barrier();
    outlive_all = start_without_peers(local);
    std::exit(0);
  }
  if (how == "thread") {
    thread_local std::optional<Communicator> own = Communicator::from_environment();
    own->barrier();
    outlive_all = start_without_peers(*own);
    std::exit(0);
  }
  world = Communicator::from_environment();
  world->barrier();
  if (how == "second") exit_in_a_second_thread();
  if (how == "late") {
    static const UsedLate late;
    std::exit(0);
  }
  outlive_all = start_without_peers(*world);
  if (how == "callback") {
    std::vector<std::int32_t> data(10, 1);
    const Work work = world->start_all_reduce(data);
    work.on_complete([](const Work&) { std::exit(0); });
    work.wait();
  }
  std::exit(0);
}

int tell_descriptors_of_groups() {
  const auto open = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  };
  world = Communicator::from_environment();
  const auto before = open();
  std::vector<Communicator> groups;
  for (int i = 0; i < 5; ++i) groups.push_back(*world->split(0));
  for (Communicator& group : groups) group.barrier();
  fmt::print("descriptors of 5 groups: {}\n", open() - before);
  world->barrier();
  groups.clear();
  world.reset();
  return 0;
}

int fork_and_go_on(const std::string& moment_and_deed) {
  const auto colon = moment_and_deed.find(':');
  const std::string moment = moment_and_deed.substr(0, colon);
  const std::string deed = moment_and_deed.substr(colon + 1);
  if (moment == "before") fork_now(deed);
  join_and_warm_up();
  if (moment == "idle") fork_now(deed);
  const bool right = moment == "flight"      ? fork_in_flight(deed)
                     : moment == "callback"  ? fork_in_callback(deed)
                     : moment == "operation" ? fork_in_operation(deed)
                                             : true;
  if (!right || !goes_on(50) || !children_are_content() || !goes_on(50)) return 1;
  drop_everything();
  return 0;
}

}  // namespace capstan
