// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/hangs.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace capstan {
namespace {

[[noreturn]] void compute_for_ever() {
  for (std::atomic<std::uint64_t> steps = 0;;) ++steps;
}

}  // namespace

void hang(Communicator& world, const std::string& how) {
  std::vector<float> data(8, 1);
  std::vector<float> longer(1 << 20, 1);
  const bool guilty = world.rank() == 1;
  const auto ranks = world.size();
  auto group = world.split(0);
  for (int i = 0; i < 20; ++i) world.all_reduce(data);
  if (how == "sleeps" && guilty) ::pause();
  if (how == "computes" && guilty) compute_for_ever();
  if (how == "stopped" && guilty) ::raise(SIGSTOP);
  if (how == "other call" && guilty) world.receive(data, 2, 7);
  if (how == "sends" && guilty) world.send(longer, 2, 9);
  if (how == "circle") world.receive(data, (world.rank() + 1) % ranks, 3);
  if (how == "group" && guilty) ::pause();
  if (how == "group") group->all_reduce(data);
  if (how == "split" && guilty) ::pause();
  if (how == "split") group = world.split(1);
  if (how == "long" && guilty) ::pause();
  if (how == "long") world.all_reduce(longer);
  if (how == "message" && guilty) ::pause();
  if (how == "message") world.receive(data, 1, 5);
  world.barrier();
  throw std::invalid_argument("there is no hang of this name: " + how);
}

}  // namespace capstan
