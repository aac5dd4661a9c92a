// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/computing_senders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr int messages = 600;

/// The number of messages that rank 1 has, in a file.
std::atomic<int>& counter_in(const std::string& file) {
  const FileDescriptor descriptor{::open(file.c_str(), O_RDWR | O_CREAT, 0600)};
  if (::ftruncate(descriptor.get(), sizeof(int)) != 0) throw std::runtime_error{"ftruncate"};
  void* const memory =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  return *static_cast<std::atomic<int>*>(memory);
}

void compute_for(std::chrono::microseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;
       std::chrono::steady_clock::now() < end;) {
  }
}

bool becomes(const std::atomic<int>& counter, int least) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (counter.load() < least && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20us);
  return counter.load() >= least;
}

std::size_t length_of(int round) {
  constexpr std::size_t lengths[] = {5'000, 60'000, 300'001};
  return lengths[round % 3];
}

}  // namespace

int send_and_compute(Communicator& world, const std::string& file) {
  std::atomic<int>& received = counter_in(file);
  std::vector<std::int32_t> data(300'001);
  std::mt19937 random{5};
  for (int round = 0; round < messages; ++round) {
    const auto part = std::span{data}.first(length_of(round));
    if (world.rank() == 0) {
      std::ranges::fill(part, round);
      const Work send = world.start_send(part, 1);
      if (round % 4 == 3 && !becomes(received, round + 1)) return 3;  // without the sender's help
      compute_for(std::chrono::microseconds{random() % 120});
      send.wait();
    } else {
      std::ranges::fill(part, -1);
      world.receive(part, 0);
      if (std::ranges::any_of(part, [&](auto value) { return value != round; })) return 4;
      received.store(round + 1);
    }
  }
  return 0;
}

}  // namespace capstan
