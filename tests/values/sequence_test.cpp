// SPDX-License-Identifier: Apache-2.0

// Collectives and messages on async values, among ranks that are threads.

#include "capstan/values/sequence.hpp"

#include <cstdlib>

#include "tests/ranks/thread_world.hpp"
#include "tests/values/helpers.hpp"
#include "tests/values/readiness.hpp"

namespace capstan::values {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor one_after_another(int ranks, std::size_t count) {
  Tensor all{DataType::i64, {static_cast<std::int64_t>(count) * ranks}};
  for (int r = 0; r < ranks; ++r)
    std::ranges::copy(
        numbers(r, count).elements<std::int64_t>(),
        all.elements<std::int64_t>().begin() + static_cast<std::ptrdiff_t>(count) * r);
  return all;
}
/// Runs body(world) for each rank, with a debug scheduler of its own.
template <class Body>
void on_ranks(int ranks, Order order, Body body) {
  on_threads(ranks, bounded_settings(), [&](Communicator& communicator) {
    DebugScheduler mine{order, static_cast<std::uint64_t>(communicator.rank())};
    const ScopedScheduler scoped{mine};
    Sequence world{communicator};
    body(world);
  });
}

void try_every_operation(Sequence& world, std::size_t count) {
  const int rank = world.rank(), size = world.size();
  const Async<Tensor> mine = numbers(rank, count);
  const Async<Tensor> blocks = numbers(rank, count * static_cast<std::size_t>(size));
  Async<Tensor> sums = world.all_reduce(mine);
  Async<Tensor> largest = world.all_reduce(mine, ReduceOp::max);
  Async<Tensor> in_place = mine;
  world.all_reduce_in_place(in_place);
  Async<Tensor> from_last = world.broadcast(mine, size - 1);
  Async<Tensor> at_first = world.reduce(mine, 0);
  Async<Tensor> gathered = world.all_gather(mine);
  Async<Tensor> scattered = world.reduce_scatter(blocks);
  Async<Tensor> exchanged = world.all_to_all(gathered);
  world.send(mine, (rank + 1) % size, 3);
  Async<Tensor> from_left =
      world.receive(DataType::i64, {static_cast<std::int64_t>(count)}, (rank + size - 1) % size, 3);
  EXPECT_EQ(sums.get_wait(), sum_of_numbers(size, count));
  EXPECT_EQ(largest.get_wait(), numbers(size - 1, count));
  EXPECT_EQ(in_place.get_wait(), sum_of_numbers(size, count));
  EXPECT_EQ(from_last.get_wait(), numbers(size - 1, count));
  EXPECT_EQ(at_first.get_wait(),
            rank == 0 ? sum_of_numbers(size, count) : Tensor(DataType::i64, {0}));
  EXPECT_EQ(gathered.get_wait(), one_after_another(size, count));
  EXPECT_EQ(scattered.get_wait(),
            part_of(sum_of_numbers(size, count * static_cast<std::size_t>(size)), rank, size));
  for (int r = 0; r < size; ++r) {
    // Every rank gathered the same, so that its block for this rank is this rank's block of it.
    EXPECT_EQ(part_of(exchanged.get_wait(), r, size), numbers(rank, count));
  }
  EXPECT_EQ(from_left.get_wait(), numbers((rank + size - 1) % size, count));
}

TEST_F(Requirement, V49_CollectivesAreOperationsOnAsyncTensors) {
  for (const int ranks : {1, 2, 3})
    for (const std::size_t count : {0U, 1U, 5U, 1000U})
      on_ranks(ranks, Order::shuffled, [&](Sequence& world) { try_every_operation(world, count); });
}

TEST_F(Requirement, V49_CollectivesAreOperationsOnAsyncTensorsOnASharedPool) {
  Pool pool{{.workers = 3}};
  on_threads(3, bounded_settings(), [&](Communicator& communicator) {
    const ScopedScheduler shared{pool};
    Sequence world{communicator};
    try_every_operation(world, 100);
  });
}

TEST_F(Requirement, V49_TheOrderOfCollectivesDoesNotDependOnReadiness) {
  const char* const asked = std::getenv("CAPSTAN_VALUES_SEEDS");
  const std::uint64_t seeds = asked ? std::strtoull(asked, nullptr, 10) : 30;
  on_threads(3, bounded_settings(), [&](Communicator& communicator) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed)
      EXPECT_EQ(fault_under_random_readiness(communicator, seed), "");
  });
}

AsyncTask sums_in_a_task(MutableBuffer<Turn> turn, MutableBuffer<Tensor> data, int times) {
  co_await when_all(turn, data);
  for (int i = 0; i < times; ++i)
    co_await turn.get().communicator().start_all_reduce(data.get().view());
}

TEST_F(Requirement, V49_ATaskStartsCollectivesByATurnOfTheOrder) {
  on_ranks(3, Order::backwards, [](Sequence& world) {
    Async<Tensor> first = Tensor::of<float>({1}), second = Tensor::of<float>({1});
    Async<Tensor> before = world.all_reduce(first);
    schedule(sums_in_a_task(world.turn(), first.mutate(), 3));
    schedule(sums_in_a_task(world.turn(), second.mutate(), 2));
    Async<Tensor> after = world.all_reduce(second);
    EXPECT_EQ(after.get_wait(), Tensor::of<float>({27}));
    EXPECT_EQ(first.get_wait(), Tensor::of<float>({27}));
    EXPECT_EQ(before.get_wait(), Tensor::of<float>({3}));
  });
}

TEST_F(Requirement, V49_CollectivesInsideOfTasksAndOnOtherThreadsAreRefused) {
  on_threads(1, bounded_settings(), [&](Communicator& communicator) {
    const ScopedScheduler inner{scheduler};
    Sequence world{communicator};
    std::string refusal;
    schedule([](Sequence* sequence, std::string* text) -> AsyncTask {
      Async<Tensor> data = Tensor::of<float>({1});
      try {
        (void)sequence->all_reduce(data);
      } catch (const InvalidArgument& error) {
        *text = error.what();
      }
      co_return;
    }(&world, &refusal));
    scheduler.run_all();
    EXPECT_THAT(refusal, HasSubstr("inside of a task"));
    std::thread{[&] {
      EXPECT_THAT([&] { (void)world.turn(); },
                  ThrowsMessage<InvalidArgument>(HasSubstr("another thread")));
    }}.join();
    EXPECT_THAT([&] { Sequence{communicator}; },
                ThrowsMessage<InvalidArgument>(HasSubstr("second Sequence")));
  });
}

TEST(Sequence, AnErrorInATensorFailsTheOperationAndThoseAfterIt) {
  on_ranks(1, Order::forwards, [](Sequence& world) {
    Async<Tensor> bad, good = Tensor::of<float>({1});
    schedule(fail(bad.write(), "not computed"));
    Async<Tensor> before = world.all_reduce(good), first = world.all_reduce(bad),
                  second = world.all_reduce(good);
    EXPECT_EQ(before.get_wait(), Tensor::of<float>({1}));
    for (Async<Tensor>* failed : {&first, &second})
      EXPECT_THAT([&] { failed->get_wait(); }, ThrowsMessage<Error>(HasSubstr("not computed")));
    EXPECT_THAT([&] { world.reduce_scatter(good).get_wait(); },
                ThrowsMessage<Error>(HasSubstr("not computed")));
  });
}

/// One number of each rank's x, after a loss in which all operations take part.
Dual<Tensor> loss_of(Sequence& world, const Dual<Tensor>& x) {
  const Dual<Tensor> sums = world.all_reduce(x * x);
  const Dual<Tensor> all = world.all_gather(sin(x));
  const Dual<Tensor> part = world.reduce_scatter(all * all);
  const Dual<Tensor> from_one = world.broadcast(exp(x), 1 % world.size());
  const Dual<Tensor> mean = world.all_reduce(tanh(x), ReduceOp::average);
  return sum(sums * x) + sum(part * x) + sum(from_one * mean) * (1.0 + world.rank());
}

Tensor start_of(int rank) {
  return Tensor::of<double>({0.3 + 0.1 * rank, -0.2 * rank, 0.5});
}

TEST_F(Requirement, V44_GradientsOfCollectivesAreTheNumericOnes) {
  // The function that is differentiated is the sum of all ranks' losses.
  const int ranks = 3;
  const auto total = [&](int moved, std::size_t element, double by) {
    std::array<double, 3> losses{};
    on_ranks(ranks, Order::forwards, [&](Sequence& world) {
      Tensor x = start_of(world.rank());
      if (world.rank() == moved) x.elements<double>()[element] += by;
      losses[static_cast<std::size_t>(world.rank())] =
          to_number(loss_of(world, x).value().get_wait());
    });
    return losses[0] + losses[1] + losses[2];
  };
  std::array<Tensor, 3> gradients;
  on_ranks(ranks, Order::shuffled, [&](Sequence& world) {
    Dual<Tensor> x = start_of(world.rank());
    loss_of(world, x).backward();
    gradients[static_cast<std::size_t>(world.rank())] = x.grad().get_wait();
  });
  const double h = 1e-5;
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(gradients[static_cast<std::size_t>(r)].elements<double>()[i],
                  (total(r, i, h) - total(r, i, -h)) / (2 * h), 1e-7)
          << "rank " << r << ", element " << i;
}

TEST(Sequence, CollectivesAfterBackwardComeAfterThoseOfGradients) {
  on_ranks(2, Order::backwards, [](Sequence& world) {
    Dual<Tensor> x = Tensor::of<double>({1.0 + world.rank()});
    for (int step = 0; step < 3; ++step) {
      const Dual<Tensor> unused = world.all_reduce(x);  // its gradient is zero, and is communicated
      sum(world.all_reduce(x * x)).backward();
      Async<Tensor> gradient = x.grad().to_async();
      Async<Tensor> moved = x.value() - gradient * 0.1;
      x = Dual<Tensor>{world.all_reduce(moved, ReduceOp::average)};
    }
    // Each step: x = average of x - 0.1 * 2 ranks * 2 x.
    EXPECT_NEAR(to_number(x.value().get_wait()), 1.5 * 0.6 * 0.6 * 0.6, 1e-12);
  });
}

}  // namespace
}  // namespace capstan::values
