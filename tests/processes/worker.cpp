// SPDX-License-Identifier: Apache-2.0

// One rank of the multi-process tests. What it does is its first argument; it reports by its exit
// status and, for errors that a test expects, by a line on standard output.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "capstan/async/execute.hpp"
#include "capstan/communicator.hpp"
#include "tests/processes/computing_senders.hpp"
#include "tests/processes/correct_calls.hpp"
#include "tests/processes/deaths.hpp"
#include "tests/processes/grows.hpp"
#include "tests/processes/hangs.hpp"
#include "tests/processes/lifetime.hpp"
#include "tests/processes/listening.hpp"
#include "tests/processes/lost_rights.hpp"
#include "tests/processes/own_schedules.hpp"
#include "tests/processes/random_calls.hpp"
#include "tests/processes/shared_buffers.hpp"
#include "tests/processes/shrinks.hpp"
#include "tests/ranks/random_messages.hpp"

namespace capstan {
namespace {

/// Calls of all sizes back to back, now and then one rank dawdles.
int random_delays(Communicator& world, int calls) {
  unsigned state = 12345u + static_cast<unsigned>(world.rank());
  for (int i = 0; i < calls; ++i) {
    state = state * 1664525u + 1013904223u;
    if (state >> 28 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{state >> 24 & 7});
    const auto all = all_collectives();
    if (!correct(world, all[static_cast<std::size_t>(i) % all.size()], DataType::i32, ReduceOp::sum,
                 counts[static_cast<std::size_t>(i * 7) % 11], i))
      return 1;
  }
  return 0;
}

/// "60": for so many seconds; "60,7": those of this seed.
int random_calls(Communicator& world, const std::string& seconds_and_seed) {
  const auto comma = seconds_and_seed.find(',');
  std::uint64_t seed = std::random_device{}();
  if (comma != std::string::npos) seed = std::stoull(seconds_and_seed.substr(comma + 1));
  world.broadcast(std::span{&seed, 1}, 0);
  return make_random_calls(world, std::chrono::seconds{std::stol(seconds_and_seed)}, seed);
}

/// All-reduces for ever; the rank named in the environment kills or stops itself on the way.
int loop_until_error(Communicator& world, std::size_t count, int victim, int signal) {
  std::vector<float> data(count, 1);
  for (int i = 0;; ++i) {
    if (world.rank() == victim && i == 50) ::raise(signal);
    world.all_reduce(std::span{data}, ReduceOp::max);
  }
}

/// Rank 1 calls something else than the others; what follows is the same on all.
void disagree(Communicator& world, const std::string& about) {
  const bool odd = world.rank() == 1;
  std::vector<float> data(1000), sums(1000);
  std::vector<std::int32_t> whole(1000);
  if (about == "collective" && odd)
    world.scan(data, sums);
  else if (about == "type" && odd)
    world.all_reduce(whole);
  else if (about == "operation")
    world.all_reduce(data, odd ? ReduceOp::max : ReduceOp::min);
  else if (about == "root")
    world.broadcast(data, odd ? 1 : 0);
  else if (about == "lengths")
    world.all_gather_v(std::span{data}.first(10), std::span{sums}.first(30),
                       std::vector<std::size_t>{10, 10, 10});
  else if (about == "exchange")
    world.all_to_all_v(
        std::span{data}.first(odd ? 33 : 30),
        odd ? std::vector<std::size_t>{11, 11, 11} : std::vector<std::size_t>{10, 10, 10},
        std::span{sums}.first(30), std::vector<std::size_t>{10, 10, 10});
  else
    world.all_reduce(data);
  for (int i = 0; i < 20; ++i) world.broadcast(data, 0);
  world.barrier();
}

/// Short messages of one communicator leave while their receiver waits in another.
bool arrive_from_elsewhere(Communicator& world) {
  constexpr int messages = 6, last_word = messages - 1;
  auto other = world.split(0);
  const int last = world.size() - 1;
  std::vector<std::int32_t> data(2000);
  for (int i = 0; i < messages && world.rank() == 0; ++i) {
    data.back() = i;
    other->send(data, last);
  }
  world.barrier();
  for (int i = 0; i < messages && world.rank() == last; ++i) other->receive(data, 0);
  return world.rank() != last || data.back() == last_word;
}

/// The ranks with odd numbers form a group while those with even ones are in a barrier, which ends
/// after that alone.
bool odd_ranks_form_a_group(Communicator& world) {
  std::vector<int> odd;
  for (int r = 1; r < world.size(); r += 2) odd.push_back(r);
  bool right = true;
  if (world.rank() % 2 == 1) {
    auto group = world.create_group(odd);
    right = correct(group, Collective::all_reduce, DataType::i32, ReduceOp::sum, 1000) &&
            correct(group, Collective::all_gather, DataType::f64, ReduceOp::sum, 7);
  }
  world.barrier();
  return right;
}

/// Groups overlap, run in different orders, and do as the world does.
int groups(Communicator& world) {
  const int rank = world.rank(), size = world.size();
  auto parity = world.split(rank % 2, -rank);  // by falling rank
  std::vector<int> low;
  for (int r = 0; r < (size + 1) / 2 + 1 && r < size; ++r) low.push_back(r);
  auto lower = world.subgroup(low);
  auto nobody = world.split(rank == 0 ? -1 : 0);
  if (nobody.has_value() != (rank != 0) || !parity) return 1;
  if (parity->world_rank(parity->rank()) != rank || parity->rank_of(rank) != parity->rank())
    return 1;
  if (parity->rank_of(rank ^ 1)) return 1;
  for (int i = 0; i < 30; ++i) {
    const auto n = counts[static_cast<std::size_t>(i) % 11];
    for (const Collective collective :
         {Collective::all_reduce, Collective::all_gather, Collective::scan}) {
      if (!correct(*parity, collective, DataType::i32, ReduceOp::sum, n)) return 1;
      if (lower && !correct(*lower, collective, DataType::f32, ReduceOp::sum, n)) return 1;
      if (nobody && !correct(*nobody, collective, DataType::i64, ReduceOp::max, n)) return 1;
    }
  }
  if (size > 1 && !arrive_from_elsewhere(world)) return 1;
  if (!odd_ranks_form_a_group(world)) return 1;
  // A group of a group, which outlives both.
  auto inner = parity->split(0);
  parity.reset();
  return correct(*inner, Collective::all_reduce, DataType::f64, ReduceOp::sum, 1000) ? 0 : 1;
}

/// Rank 1 is late, stops or dies, while the others' operations are in flight.
int operations_against(Communicator& world, const std::string& trouble) {
  using namespace std::chrono_literals;
  std::vector<float> data(300'000, 1);
  if (world.rank() == 1 && trouble == "late") std::this_thread::sleep_for(300ms);
  if (world.rank() == 1 && trouble == "stopped") ::raise(SIGSTOP);
  if (world.rank() == 1 && trouble == "killed") ::raise(SIGKILL);
  std::atomic<int> called = 0;
  Work work = world.start_all_reduce(data);
  work.on_complete([&](const Work&) { ++called; });
  if (world.rank() == 1) {
    work.wait();
    return data.front() == static_cast<float>(world.size()) ? 0 : 1;
  }
  if (trouble == "late" && work.wait_for(1ms)) return 1;  // returns in time, and leaves it running
  if (trouble == "stopped") {
    // A deadline of this caller's own: the buffer is free at once, whatever rank 1 does.
    try {
      execute([&] { return work; }, 200ms);
      return 1;
    } catch (const DeadlineExceeded&) {
      std::fill(data.begin(), data.end(), -1);
      fmt::print("DeadlineExceeded, {} callbacks\n", called.load());
      return 0;
    }
  }
  try {
    work.wait();
  } catch (const PeerLost&) {
    fmt::print("{} callbacks\n", called.load());
    throw;
  }
  return called == 1 && data.front() == static_cast<float>(world.size()) ? 0 : 1;
}

/// Rank 0 rests after a message and after a broadcast until the last rank has got them and wakes
/// it: they have to arrive although it does nothing more for them.
int send_and_rest(Communicator& world) {
  const int last = world.size() - 1;
  sigset_t woken;
  sigemptyset(&woken);
  sigaddset(&woken, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &woken, nullptr);
  std::int32_t sleeper = ::getpid();
  world.broadcast(std::span{&sleeper, 1}, 0);
  const auto rest = [&] {
    constexpr timespec longest{60, 0};
    if (world.rank() == last) ::kill(sleeper, SIGUSR1);
    return world.rank() != 0 || ::sigtimedwait(&woken, nullptr, &longest) == SIGUSR1;
  };
  for (const std::size_t count : {1'000u, 20'000u, 70'000u, 1'000'000u}) {
    std::vector<std::uint32_t> data(count, world.rank() == 0 ? 7u : 0u);
    if (world.rank() == 0) world.send(data, last);
    if (world.rank() == last) world.receive(data, 0);
    if (!rest()) return fmt::print("a message of {} words did not arrive\n", count), 1;
    world.broadcast(data, 0);
    if (!rest()) return fmt::print("a broadcast of {} words did not arrive\n", count), 1;
    if (std::ranges::count(data, 7u) != static_cast<std::ptrdiff_t>(count)) return 1;
    world.barrier();
  }
  return 0;
}

/// A line for each socket; after a call in which all ranks have spoken to each other.
int tell_what_listens(Communicator& world) {
  if (!correct(world, Collective::all_to_all, DataType::i32, ReduceOp::sum, 100'000)) return 1;
  std::string text;
  for (const std::string& socket : listening_sockets())
    text += fmt::format("rank {} listens: {}\n", world.rank(), socket);
  fmt::print("{}", text);
  world.barrier();
  return 0;
}

/// Prints the rank's memory that ranks share, after collectives and messages of up to so many
/// elements.
int tell_what_it_holds(Communicator& world, std::size_t most) {
  for (std::size_t count = 1; count <= most; count *= 4)
    for (const Collective collective : all_collectives())
      if (!correct(world, collective, DataType::i32, ReduceOp::sum, count)) return 1;
  const std::string trouble = RandomMessages(world, 200, 11).run();
  world.barrier();  // all see all segments
  fmt::print("holds {} KiB\n{}", bytes_of_segments() >> 10, trouble);
  world.barrier();
  return trouble.empty() ? 0 : 1;
}

/// How this rank reached the others, once all have spoken to each other and the sums were right.
int tell_what_carries(Communicator& world) {
  for (const std::size_t count : counts)
    if (!correct(world, Collective::all_reduce, DataType::f32, ReduceOp::sum, count)) return 1;
  if (!correct(world, Collective::all_to_all, DataType::i32, ReduceOp::sum, 100'000)) return 1;
  fmt::print("rank {} of {}: right sums, {} segments, connected to {}\n", world.rank(),
             world.size(), shared_segments(), fmt::join(connected_addresses(), " "));
  world.barrier();
  return 0;
}

/// KiB of this process's own memory, at most so far.
long most_memory() {
  std::ifstream status{"/proc/self/status"};
  std::string word;
  long kilobytes = 0;
  while (status >> word)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes;
}

/// Rank 0 sends so many messages that nobody receives while the others are in a barrier.
int flood(Communicator& world, int messages) {
  const int last = world.size() - 1;
  std::vector<std::uint8_t> data(8000, 7);
  std::vector<Work> sends;
  const long before = most_memory();
  if (world.rank() == 0)
    for (int i = 0; i < messages; ++i) sends.push_back(world.start_send(data, last));
  world.barrier();
  if (world.rank() == last) {
    std::ranges::fill(data, 0);
    for (int i = 0; i < messages; ++i) world.receive(data, 0);
    fmt::print("stored {} MiB\n", (most_memory() - before) >> 10);
  }
  for (const Work& work : sends) work.wait();
  world.barrier();
  return std::ranges::count(data, 7) == 8000 || world.rank() != last ? 0 : 1;
}

/// "SEED,NAME": of processes 0 to 3 and 4 others.
Fire fire_of(const std::string& text) {
  const auto comma = text.find(',');
  return {static_cast<unsigned>(std::stoul(text)), text.substr(comma + 1), 8};
}

/// "sleeps", or "sleeps,SEED".
void hang_as_asked(Communicator& world, const std::string& argument) {
  const auto comma = argument.find(',');
  const bool seeded = comma != argument.npos;
  hang(world, argument.substr(0, comma),
       seeded ? static_cast<unsigned>(std::stoul(argument.substr(comma + 1))) : 0);
}

int run(const std::string& what, const char* argument) {
  if (what == "silent") {  // a rank that never joins
    if (std::string{std::getenv("CAPSTAN_RANK")} == argument) {
      std::this_thread::sleep_for(std::chrono::seconds{5});
      return 0;
    }
  }
  if (what == "fork") return fork_and_go_on(argument);
  if (what == "exit") return end_by_exit(argument);
  if (what == "descriptors") return tell_descriptors_of_groups();
  if (what == "own_schedules") return run_own_schedules();
  if (what == "spare")  // "NUMBER,SEED,NAME"
    return join_under_fire(fire_of(std::strchr(argument, ',') + 1), std::atoi(argument));
  if (what == "outlive") return outlive(argument, false);
  if (what == "outlive_broadcasts") return outlive(argument, true);
  if (what == "outlive_in_messages") return outlive_in_messages(argument);
  std::jthread others[2];
  if (what == "rank-beside-threads")
    for (std::jthread& other : others)
      other = std::jthread{[](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }};
  Communicator world = Communicator::from_environment();
  if (what == "everything") return everything(world, argument);
  if (what == "few_types") return everything_in_few_types(world, argument);
  if (what == "delays") return random_delays(world, *argument ? std::atoi(argument) : 400);
  if (what == "calls") return random_calls(world, argument);
  if (what == "kill")
    return loop_until_error(world, std::strtoul(argument, nullptr, 10), 1, SIGKILL);
  if (what == "loop") return loop_until_error(world, std::strtoul(argument, nullptr, 10), -1, 0);
  if (what == "stop")
    return loop_until_error(world, std::strtoul(argument, nullptr, 10), 1, SIGSTOP);
  if (what == "leave") {
    if (world.rank() == 1) return 0;
    return loop_until_error(world, 10, -1, 0);
  }
  if (what == "mismatch") {
    std::vector<float> data(world.rank() == 1 ? 20 : std::strtoul(argument, nullptr, 10));
    world.all_reduce(std::span{data});
    return 0;
  }
  if (what == "disagree") return disagree(world, argument), 0;
  if (what == "groups") return groups(world);
  if (what == "hang") return hang_as_asked(world, argument), 1;
  if (what == "messages") {
    const std::string trouble = RandomMessages(world, std::atoi(argument), 11).run();
    world.barrier();
    if (!trouble.empty()) fmt::print("rank {}: {}\n", world.rank(), trouble);
    return trouble.empty() ? 0 : 1;
  }
  if (what == "flood") return flood(world, std::atoi(argument));
  if (what == "rest") return send_and_rest(world);
  if (what == "receive") {  // from a rank that kills itself
    std::vector<int> buffer(100'000);
    if (world.rank() != 1) world.receive(buffer, 1, 3);
    world.send(std::span{buffer}.first(10), 0, 2);
    ::raise(SIGKILL);
  }
  if (what == "shrink")
    return shrink_under_fire(std::move(world), static_cast<unsigned>(std::atoi(argument)));
  if (what == "grow") return grow_under_fire(std::move(world), fire_of(argument));
  if (what == "async") return operations_against(world, argument);
  if (what == "shared") return use_shared_buffers(world, argument);
  if (what == "holds") return tell_what_it_holds(world, std::strtoul(argument, nullptr, 10));
  if (what == "carries") return tell_what_carries(world);
  if (what == "loses" || what == "loses-first")
    return lose_right(world, argument, what == "loses-first");
  if (what == "computing-senders") return send_and_compute(world, argument);
  if (what == "listens") return tell_what_listens(world);
  if (what == "rank" || what == "rank-beside-threads") {
    fmt::print("{} of {}\n", world.rank(), world.size());
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  try {
    return capstan::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const capstan::PeerLost& error) {
    fmt::print("PeerLost {}: {}\n", error.lost().value(), error.what());
  } catch (const capstan::Mismatch& error) {
    fmt::print("Mismatch: {}\n", error.what());
  } catch (const capstan::TimedOut& error) {
    fmt::print("TimedOut: {}\n", error.what());
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
  }
  // Elsewhere an error is expected, and the test reads which.
  const std::string what = argc > 1 ? argv[1] : "";
  return what == "everything" || what == "few_types" || what == "delays" || what == "calls" ||
         what == "groups" || what == "messages" || what == "fork" ||
         (what == "shared" && !capstan::fails_on_purpose(argv[2]));
}
