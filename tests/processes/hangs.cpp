// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/hangs.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "capstan/request.hpp"

namespace capstan {
namespace {

[[noreturn]] void compute_for_ever() {
  for (std::atomic<std::uint64_t> steps = 0;;) ++steps;
}

/// Writes this rank's report to $REPORTS.RANK when there is a file $REPORTS.
void report_when_asked(const Communicator& world) {
  const char* const path = std::getenv("REPORTS");
  if (!path) return;
  std::thread{[&world, path = std::string{path}] {
    while (!std::filesystem::exists(path))
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    const std::string own = fmt::format("{}.{}", path, world.rank());
    std::ofstream{own + ".part"} << world.report_json();
    std::filesystem::rename(own + ".part", own);
  }}.detach();
}

/// Some call of all ranks.
void call(Communicator& world, std::uint64_t number) {
  std::vector<float> data(8, 1), all(8 * static_cast<std::size_t>(world.size()), 1), others{all};
  const int root = static_cast<int>(number / 6 % static_cast<std::uint64_t>(world.size()));
  switch (number % 6) {
    case 0:
      return world.all_reduce(data);
    case 1:
      return world.broadcast(data, root);
    case 2:
      return world.all_gather(data, all);
    case 3:
      return world.reduce_scatter(all, data);
    case 4:
      return world.all_to_all(all, others);
    default:
      return world.barrier();
  }
}

}  // namespace

void hang(Communicator& world, const std::string& how, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<float> data(8, 1);
  std::vector<float> longer(1 << 20, 1);
  const auto ranks = world.size();
  const int whose = guilty_of(seed, ranks), other = (whose + 1) % ranks;
  const bool guilty = world.rank() == whose;
  report_when_asked(world);
  auto group = world.split(0);
  random.discard(1);
  for (unsigned i = 0, calls = seed == 0 ? 20 : random() % 100; i < calls; ++i)
    call(world, seed == 0 ? 0 : random());
  if (how == "sleeps" && guilty) ::pause();
  if (how == "computes" && guilty) compute_for_ever();
  if (how == "stopped" && guilty) ::raise(SIGSTOP);
  if (how == "other call" && guilty) world.receive(data, other, 7);
  if (how == "sends" && guilty) world.send(longer, other, 9);
  if (how == "circle") world.receive(data, (world.rank() + 1) % ranks, 3);
  if (how == "group" && guilty) ::pause();
  if (how == "group") group->all_reduce(data);
  if (how == "split" && guilty) ::pause();
  if (how == "split") group = world.split(1);
  if (how == "long" && guilty) ::pause();
  if (how == "long") world.all_reduce(longer);
  if (how == "message" && guilty) ::pause();
  if (how == "message") world.receive(data, whose, 5);
  world.barrier();
  throw std::invalid_argument("there is no hang of this name: " + how);
}

}  // namespace capstan
