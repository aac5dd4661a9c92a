// SPDX-License-Identifier: Apache-2.0
#include "tests/values/readiness.hpp"

#include <fmt/format.h>

#include <random>
#include <vector>

#include "capstan/values/debug_scheduler.hpp"
#include "capstan/values/sequence.hpp"

namespace capstan::values {

Tensor numbers(int rank, std::size_t count, int salt) {
  Tensor tensor{DataType::i64, {static_cast<std::int64_t>(count)}};
  for (std::size_t i = 0; i < count; ++i)
    tensor.elements<std::int64_t>()[i] = 1000 * rank + 7 * static_cast<int>(i) + salt;
  return tensor;
}

Tensor sum_of_numbers(int ranks, std::size_t count, int salt) {
  Tensor total = numbers(0, count, salt);
  for (int r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < count; ++i)
      total.elements<std::int64_t>()[i] += numbers(r, count, salt).elements<std::int64_t>()[i];
  return total;
}

Tensor part_of(const Tensor& tensor, int part, int parts) {
  const std::int64_t length = tensor.shape()[0] / parts;
  return Tensor{tensor.view().slice(0, part * length, length)};
}

namespace {

/// Writes after others have run for so many turns.
AsyncTask late(WriteBuffer<Tensor> out, Tensor value, std::uint32_t turns) {
  for (std::uint32_t i = 0; i < turns; ++i) co_await reschedule();
  co_await out = std::move(value);
}

/// The operations that one rank starts, and does not wait for.
struct Started {
  std::vector<Async<Tensor>> sums;
  std::vector<Async<Tensor>> received;  ///< from the left
  std::vector<Async<Tensor>> gathered;  ///< what was received
};

constexpr int sums_of_each = 6;
constexpr std::size_t elements = 10;

Started start(Sequence& world, std::mt19937& random) {
  const int rank = world.rank(), size = world.size();
  Started started;
  for (int i = 0; i < sums_of_each; ++i) {
    Async<Tensor> input;
    schedule(late(input.write(), numbers(rank, elements, i), random() % 8));
    started.sums.push_back(world.all_reduce(input));
    if (i % 2 != 0) continue;
    world.send(started.sums.back(), (rank + 1) % size);
    started.received.push_back(world.receive(DataType::i64, {elements}, (rank + size - 1) % size));
    started.gathered.push_back(world.all_gather(started.received.back()));
  }
  return started;
}

/// Looks at the results in the order opposite to that of the operations.
std::string first_fault(Started& started, int size) {
  for (int i = sums_of_each; i-- > 0;) {
    const Tensor sum = sum_of_numbers(size, elements, i);
    const auto at = static_cast<std::size_t>(i);
    if (started.sums[at].get_wait() != sum) return fmt::format("all_reduce {} is wrong", i);
    if (i % 2 != 0) continue;
    if (started.received[at / 2].get_wait() != sum) return fmt::format("message {} is wrong", i);
    for (int r = 0; r < size; ++r)
      if (part_of(started.gathered[at / 2].get_wait(), r, size) != sum)
        return fmt::format("all_gather {} is wrong in the block of rank {}", i, r);
  }
  return {};
}

}  // namespace

std::string fault_under_random_readiness(Communicator& communicator, std::uint64_t seed) {
  const auto rank = static_cast<std::uint64_t>(communicator.rank());
  std::mt19937 random{static_cast<std::uint32_t>(seed * 31 + rank)};
  DebugScheduler mine{DebugScheduler::Order::shuffled, random()};
  const ScopedScheduler scoped{mine};
  Sequence world{communicator};
  Started started = start(world, random);
  const std::string fault = first_fault(started, communicator.size());
  return fault.empty() ? fault : fmt::format("rank {}, seed {}: {}", rank, seed, fault);
}

}  // namespace capstan::values
