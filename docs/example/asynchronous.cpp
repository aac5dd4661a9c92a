// SPDX-License-Identifier: Apache-2.0

// The ways to use operations that go on in the background; docs/asynchronous.md explains them.
//   capstan run -n 2 -- ./asynchronous
#include <capstan/async/events.hpp>
#include <capstan/async/execute.hpp>
#include <capstan/async/operation_queue.hpp>
#include <capstan/async/overlap.hpp>
#include <capstan/communicator.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

using namespace std::chrono_literals;
using capstan::Communicator;
using capstan::Work;
using Bucket = std::vector<float>;

void compute() {}

void start_compute_wait(Communicator& world, Bucket& data) {
  const Work work = world.start_all_reduce(data);
  compute();
  while (!work.wait_for(100ms)) std::puts("still waiting ...");
  std::printf("sum of %zu elements: %g\n", work.result<float>().size(), data.front());
}

void several(Communicator& world, std::vector<Bucket>& buckets) {
  capstan::OperationQueue queue;  // cancels what is pending when it goes
  for (Bucket& bucket : buckets) queue.enqueue(world.start_all_reduce(bucket));
  compute();
  const auto first = queue.wait_for_any();
  std::printf("operation %zu ended first\n", *first);
  if (!queue.try_wait_for_all(10s)) std::puts("10 s for all of them were not enough");
}

void within_a_time(Communicator& world, Bucket& data) try {
  capstan::execute([&] { return world.start_all_reduce(data); }, 5s);
} catch (const capstan::DeadlineExceeded& error) {
  std::printf("%s\n", error.what());  // it was cancelled: `data` is ours again
}

void pipeline(Communicator& world, std::vector<Bucket>& buckets) {
  capstan::pipeline_compute_communicate(
      buckets, [](Bucket& bucket) { bucket.front() += 1; },
      [&](Bucket& bucket) { return world.start_all_reduce(bucket); });
}

void events(Communicator& world, std::vector<Bucket>& buckets) {
  std::vector<Work> works;
  capstan::OperationEvents events;
  events.on_error([](const Work& work, const std::exception_ptr&) {
    std::printf("%s failed\n", work.describe().c_str());
  });
  for (int i = 0; i < static_cast<int>(buckets.size()); ++i)
    works.push_back(events.start(
        i, [&, i] { return world.start_all_reduce(buckets[static_cast<std::size_t>(i)]); }));
  Work::wait_all(works);
}

int main() try {
  auto world = Communicator::from_environment();
  Bucket data(1000, 1);
  std::vector<Bucket> buckets(4, Bucket(500, 1));
  start_compute_wait(world, data);
  several(world, buckets);
  within_a_time(world, data);
  pipeline(world, buckets);
  events(world, buckets);
  world.barrier();
  std::printf("rank %d is done\n", world.rank());
} catch (const capstan::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
