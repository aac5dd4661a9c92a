#include "core/communicator.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "algorithms/registry.hpp"

namespace capstan {
namespace {

/// Runs `body(communicator)` on one thread per rank.
template <class Body>
void on_threads(int ranks, const Settings& settings, Body body) {
  auto world = Communicator::local_world(ranks, settings);
  std::vector<std::jthread> threads;
  for (auto& communicator : world)
    threads.emplace_back([&] {
      try {
        body(communicator);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
}

/// Integers small enough for the sum to be exact in every type used here; distinct per rank, index.
template <class T>
T value(int rank, std::size_t index) {
  return static_cast<T>((rank * 7 + static_cast<int>(index % 1013) * 3) % 101);
}

template <class T>
std::vector<T> inputs(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value<T>(rank, i);
  return values;
}

template <class T>
T expected_sum(int ranks, std::size_t index) {
  T sum{};
  for (int rank = 0; rank < ranks; ++rank) sum += value<T>(rank, index);
  return sum;
}

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryAlgorithm, SumsOverThreads) {
  Settings settings;
  settings.timeout = std::chrono::seconds{30};  // a rank that has failed leaves the others waiting
  settings.algorithm = "all_reduce:" + GetParam();
  settings.chunk = Bytes{4096};  // long operations are cut into many blocks
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    on_threads(ranks, settings, [&](Communicator& world) {
      for (const std::size_t count : {0, 1, 2, 3, 7, 13, 14, 15, 100, 1000, 4099, 40000, 100001}) {
        for (int round = 0; round < 3; ++round) {
          const auto input = inputs<float>(world.rank() + round, count);
          std::vector<float> output(count, -1);
          world.all_reduce(std::span<const float>{input}, std::span{output});
          auto in_place = input;
          world.all_reduce(std::span{in_place});
          for (std::size_t i = 0; i < count; ++i) {
            float sum = 0;
            for (int rank = 0; rank < ranks; ++rank) sum += value<float>(rank + round, i);
            ASSERT_EQ(output[i], sum) << "rank " << world.rank() << " of " << ranks << ", count "
                                      << count << ", element " << i;
            ASSERT_EQ(in_place[i], sum);
          }
        }
      }
    });
  }
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms(Collective::all_reduce))
    names.emplace_back(algorithm.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, EveryAlgorithm, ::testing::ValuesIn(algorithm_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace capstan
