// SPDX-License-Identifier: Apache-2.0

// A rod of metal cools down: each rank has a part of it, and its ends come from its neighbours.
// Each step sends both ends, computes the inside meanwhile, and then the two cells that need a
// neighbour.
//   capstan run -n 3 -- ./stencil
#include <capstan/values/sequence.hpp>
#include <cmath>
#include <cstdio>

using namespace capstan::values;
using capstan::DataType;
using capstan::Tensor;

namespace {

constexpr int cells = 30, steps = 40;

Tensor cell_of(const Tensor& rod, std::size_t index) {
  return Tensor::of<double>({rod.elements<double>()[index]});
}

/// A step of the rod: every cell moves towards the mean of its neighbours.
Tensor stepped(const Tensor& rod, const Tensor& left, const Tensor& right) {
  Tensor next = rod;
  const auto now = rod.elements<double>();
  const auto then = next.elements<double>();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double before = i > 0 ? now[i - 1] : left.elements<double>()[0];
    const double after = i + 1 < now.size() ? now[i + 1] : right.elements<double>()[0];
    then[i] = now[i] + 0.25 * (before - 2 * now[i] + after);
  }
  return next;
}

/// This rank's part of the rod at the beginning: hot in the first cell of all.
Tensor part_of_rod(int rank, int size) {
  const int first = cells * rank / size, end = cells * (rank + 1) / size;
  Tensor part{DataType::f64, {end - first}};
  if (rank == 0) part.elements<double>()[0] = 100;
  return part;
}

Async<Tensor> simulate(Sequence& world) {
  const int rank = world.rank(), size = world.size();
  Async<Tensor> rod = part_of_rod(rank, size);
  const std::size_t last =
      static_cast<std::size_t>(cells * (rank + 1) / size - cells * rank / size) - 1;
  for (int step = 0; step < steps; ++step) {
    // An end of the rod has itself for a neighbour: no heat leaves it.
    Async<Tensor> left = compute([](const Tensor& r) { return cell_of(r, 0); }, rod);
    Async<Tensor> right = compute([last](const Tensor& r) { return cell_of(r, last); }, rod);
    if (rank > 0) world.send(left, rank - 1);
    if (rank + 1 < size) world.send(right, rank + 1);
    Async<Tensor> from_left =
        rank > 0 ? world.receive(DataType::f64, {1}, rank - 1) : std::move(left);
    Async<Tensor> from_right =
        rank + 1 < size ? world.receive(DataType::f64, {1}, rank + 1) : std::move(right);
    rod = compute(stepped, rod, from_left, from_right);
  }
  return rod;
}

/// The same on one rank, in a loop.
Tensor expected() {
  Tensor rod = part_of_rod(0, 1);
  for (int step = 0; step < steps; ++step)
    rod = stepped(rod, cell_of(rod, 0), cell_of(rod, cells - 1));
  return rod;
}

}  // namespace

int main() try {
  auto communicator = capstan::Communicator::from_environment();
  Sequence world{communicator};
  const Tensor rod = simulate(world).get_wait();
  const std::int64_t first = cells * world.rank() / world.size();
  Tensor all = expected();
  const bool right = rod == Tensor{all.view().slice(0, first, rod.shape()[0])};
  std::printf("rank %d: %s\n", world.rank(), right ? "the rod is as on one rank" : "WRONG");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
