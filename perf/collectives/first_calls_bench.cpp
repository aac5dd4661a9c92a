// SPDX-License-Identifier: Apache-2.0

// The times of a program's first calls, and how much later ones vary: Capstan and each library
// that it can be compared with, in turn.
//
//   first_calls_bench [COLLECTIVE] [SIZES] [RANKS] [PEERS]
//
// A cell has processes of its own, as only the first calls of a process are first calls. Calls
// follow one another, after a barrier of the library; each counts with its slowest rank. COLLECTIVE
// is all_reduce, SIZES 8,64K,1M,64M, RANKS 2, PEERS openmpi,mpich,gloo as far as they were built.
// There are 10^5 calls of up to 16 KiB, fewer of longer ones. Times are in microseconds. Below the
// table stand the first calls one by one.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <thread>

#include "capstan/error.hpp"
#include "core/profiles/machine_state.hpp"
#include "core/schedule/selection/rules.hpp"
#include "perf/compare/coordinator.hpp"
#include "perf/compare/workers.hpp"
#include "perf/measure/cell.hpp"
#include "perf/report/origin.hpp"

namespace capstan::perf {
namespace {

using worker_protocol::CallTimes;
using worker_protocol::Order;

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text{list};
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

std::string built_peers() {
  std::vector<std::string> peers;
  for (const char* peer : {"openmpi", "mpich", "gloo"})
    if (!find_installed(fmt::format("libexec/capstan/{}_worker", peer)).empty())
      peers.emplace_back(peer);
  return fmt::format("{}", fmt::join(peers, ","));
}

std::uint64_t calls_of(Bytes size) {
  constexpr std::uint64_t bytes_in_all = std::uint64_t{3} << 29, most = 100'000, least = 100;
  return std::clamp(bytes_in_all / size.value(), least, most);
}

double microseconds_of_first(const CallTimes& times, std::size_t calls) {
  return std::accumulate(times.first.begin(), times.first.begin() + static_cast<long>(calls), 0.0) *
         1e6;
}

void print_head() {
  fmt::print("#{:>11} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>9} {:>9} {:>10}\n", "library",
             "1st", "2nd", "3rd", "10 calls", "50 calls", "100 calls", "p50", "p99", "p99.9",
             "largest");
}

void print_line(const std::string& name, const CallTimes& times) {
  fmt::print(
      "{:>12} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.1f} {:>10.1f} {:>10.1f} {:>9.2f} {:>9.2f} "
      "{:>9.2f} {:>10.1f}\n",
      name, times.first[0] * 1e6, times.first[1] * 1e6, times.first[2] * 1e6,
      microseconds_of_first(times, 10), microseconds_of_first(times, 50),
      microseconds_of_first(times, 100), times.p50 * 1e6, times.p99 * 1e6, times.p999 * 1e6,
      times.largest * 1e6);
}

void print_calls(const std::string& name, const CallTimes& times) {
  std::vector<std::string> each;
  for (const double seconds : times.first) each.push_back(fmt::format("{:.4g}", seconds * 1e6));
  fmt::print("# {}: {}\n", name, fmt::join(each, " "));
}

/// Capstan and its peers, without the bound.
std::vector<WorkerSpec> libraries(const std::vector<std::string>& peers, const TestBed& testbed) {
  auto workers = workers_of(peers, testbed);
  std::erase_if(workers, [](const WorkerSpec& worker) { return worker.peer_name == bound_name; });
  return workers;
}

void measure(const Cell& cell, Bytes size, int ranks, const std::vector<std::string>& peers) {
  const TestBed testbed{{.ranks = ranks, .command = {}, .environment = {}, .timeout = {}}};
  Coordinator coordinator{libraries(peers, testbed), ranks, testbed.address()};
  const Order prepare{.kind = Order::Kind::prepare,
                      .collective = static_cast<std::uint32_t>(cell.collective),
                      .bytes = size.value(),
                      .unsettled = 1};
  const std::uint64_t calls = calls_of(size);
  fmt::print("# {} of {} bytes on {} ranks, {} calls\n", name_of(cell.collective), size.value(),
             ranks, calls);
  print_head();
  std::vector<std::pair<std::string, CallTimes>> listed;
  for (std::size_t worker = 0; worker < coordinator.workers(); ++worker) {
    const std::string& name = coordinator.spec(worker).name;
    if (coordinator.order(worker, prepare).failed) continue;
    if (const auto times = coordinator.list(worker, calls)) listed.emplace_back(name, *times);
    coordinator.order(worker, {.kind = Order::Kind::release});
    if (!listed.empty() && listed.back().first == name) print_line(name, listed.back().second);
    std::fflush(stdout);
  }
  for (const auto& [name, times] : listed) print_calls(name, times);
}

/// Waits for other programs to leave the machine alone, and says how it is and what measures.
void print_conditions(const std::vector<std::string>& arguments) {
  constexpr double patience = 10;
  const MachineState state = await_quiet(patience, [] {
    std::this_thread::sleep_for(std::chrono::duration<double>{moment_to_look});
    return read_machine();
  });
  for (const auto& [name, value] : report::origin({}, ""))
    if (name != "command") fmt::print("# {}: {}\n", name, value);
  fmt::print("# arguments: {}\n# machine now: {}\n", fmt::join(arguments, " "), state.text());
}

void run(const std::vector<std::string>& arguments) {
  print_conditions(arguments);
  const auto argument = [&](std::size_t i, const std::string& otherwise) {
    return arguments.size() > i ? arguments[i] : otherwise;
  };
  const auto collective = collective_named(argument(0, "all_reduce"));
  const int ranks = std::atoi(argument(2, "2").c_str());
  const auto peers = words_of(argument(3, built_peers()));
  for (const std::string& word : words_of(argument(1, "8,64K,1M,64M"))) {
    const auto size = parse_bytes(word);
    if (!collective || !size || *size < Bytes{1} || ranks < 1)
      throw InvalidArgument("first_calls_bench [COLLECTIVE] [SIZES] [RANKS] [PEERS]");
    measure(compared_cell_of(*collective, *size, ranks), *size, ranks, peers);
  }
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) try {
  capstan::perf::run({argv + 1, argv + argc});
} catch (const capstan::Error& error) {
  fmt::print(stderr, "first_calls_bench: {}\n", error.what());
  return 1;
}
