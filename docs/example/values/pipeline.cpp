// SPDX-License-Identifier: Apache-2.0

// A pipeline over ranks: each batch passes through a stage on every rank in turn. While a rank
// works on one batch, its neighbours work on others.
//   capstan run -n 3 -- ./pipeline
#include <capstan/values/sequence.hpp>
#include <cstdio>

using namespace capstan::values;
using capstan::DataType;
using capstan::Tensor;

namespace {

constexpr int batches = 20;
constexpr std::int64_t length = 1000;

Tensor batch_of(int number) {
  Tensor batch{DataType::f64, {length}};
  return filled_like(batch, number);
}

/// The work of one rank.
Tensor stage(const Tensor& batch, int rank) {
  return batch * 2.0 + static_cast<double>(rank);
}

}  // namespace

int main() try {
  auto communicator = capstan::Communicator::from_environment();
  Sequence world{communicator};
  const int rank = world.rank(), last = world.size() - 1;
  std::vector<Async<Tensor>> results;
  for (int i = 0; i < batches; ++i) {
    Async<Tensor> batch = rank == 0 ? Async<Tensor>{batch_of(i)}
                                    : world.receive(DataType::f64, {length}, rank - 1, i);
    Async<Tensor> done = compute([rank](const Tensor& b) { return stage(b, rank); }, batch);
    if (rank < last) world.send(done, rank + 1, i);
    results.push_back(std::move(done));
  }
  bool right = true;
  for (int i = 0; i < batches; ++i) {
    Tensor expected = batch_of(i);
    for (int r = 0; r <= rank; ++r) expected = stage(expected, r);
    right = right && results[static_cast<std::size_t>(i)].get_wait() == expected;
  }
  std::printf("rank %d: %s\n", rank, right ? "every batch is right" : "WRONG");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
