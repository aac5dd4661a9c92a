// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/lost_rights.hpp"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "capstan/error.hpp"
#include "tests/processes/refused_calls.hpp"

namespace capstan {
namespace {

constexpr std::size_t lengths[] = {1, 1000, 300'000, 3'000'000};

bool calls_are_right(Communicator& world) {
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  bool right = true;
  for (const std::size_t length : lengths) {
    std::vector<float> sums(length, 1.0f), all(length * static_cast<std::size_t>(world.size()));
    world.all_reduce(sums);
    right = right && sums.back() == static_cast<float>(world.size());
    std::ranges::fill(sums, static_cast<float>(world.rank()));
    world.all_gather(sums, all);
    right = right && all.front() == 0.0f && all.back() == static_cast<float>(world.size() - 1);
    world.broadcast(sums, world.size() - 1);
    right = right && sums.back() == static_cast<float>(world.size() - 1);
    std::vector<float> sent(length, static_cast<float>(world.rank())), came(length);
    const Work send = world.start_send(sent, next);
    world.receive(came, before);
    send.wait();
    right = right && came.back() == static_cast<float>(before);
  }
  return right;
}

bool new_groups_and_buffers_are_right(Communicator& world) {
  std::optional<Communicator> group = world.split(0, -world.rank());
  const bool right = calls_are_right(*group);
  auto buffer = world.allocate<float>(100'000);
  std::ranges::fill(buffer.span(), 1.0f);
  world.all_reduce(buffer);
  return right && buffer.span().back() == static_cast<float>(world.size());
}

std::vector<CallPattern> named(const std::string& call) {
  std::vector<CallPattern> calls;
  for (const auto& table : {optional_calls(), needed_calls()})
    for (const CallPattern& pattern : table)
      if (call == pattern.name) calls.push_back(pattern);
  if (call == "all") calls.assign(optional_calls().begin(), optional_calls().end());
  return calls;
}

/// Each rank then may read the memory of no other one, as the system takes it for one whose memory
/// holds what its user must not see.
void become_nobody() {
  constexpr uid_t nobody = 65534;
  if (::setuid(nobody) != 0) throw SystemError("setuid is not to be had");
}

}  // namespace

int lose_right(Communicator& world, const std::string& call, bool before_the_first) {
  bool right = before_the_first || calls_are_right(world);
  if (call == "setuid")
    become_nobody();
  else if (world.rank() == 0)
    filter_calls(named(call), SECCOMP_RET_ERRNO | EPERM);
  for (int i = 0; i < 2; ++i) right = calls_are_right(world) && right;
  right = new_groups_and_buffers_are_right(world) && right;
  right = calls_are_right(world) && right;
  fmt::print("rank {}: {} results\n", world.rank(), right ? "right" : "wrong");
  return right ? 0 : 1;
}

}  // namespace capstan
