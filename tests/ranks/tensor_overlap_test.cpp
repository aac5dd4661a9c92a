// SPDX-License-Identifier: Apache-2.0

// Tensors in which two indices mean one element: they can be read, and not written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "capstan/tensor.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;

TEST(TensorOverlap, IsWhereTwoIndicesMeanOneElement) {
  float memory[64];
  const auto overlaps = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    return TensorView{memory, std::move(shape), std::move(strides)}.overlaps_itself();
  };
  EXPECT_FALSE(overlaps({4, 4}, {}));
  EXPECT_FALSE(overlaps({4, 4}, {1, 4}));
  EXPECT_FALSE(overlaps({4, 4}, {-4, 1}));
  EXPECT_FALSE(overlaps({2, 3}, {3, 2})) << "which interleave";
  EXPECT_FALSE(overlaps({1, 4}, {0, 1})) << "one index needs no stride";
  EXPECT_FALSE(overlaps({0, 4}, {0, 0}));
  EXPECT_TRUE(overlaps({2, 2}, {0, 0}));
  EXPECT_TRUE(overlaps({2, 2}, {0, 1}));
  EXPECT_TRUE(overlaps({3, 4}, {2, 1})) << "windows";
  EXPECT_TRUE(overlaps({3, 3}, {2, -2}));
}

/// Elsewhere the last of the results that share a place would stay, without a word.
TEST(TensorOverlap, IsReadAndNotWritten) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    float one = 1, memory[8]{};
    const TensorView repeated{&one, {2, 2}, {0, 0}}, dense{memory, {2, 2}},
        long_one{memory, {4, 2}};
    EXPECT_THROW(world.all_reduce(dense, repeated), InvalidArgument);
    EXPECT_THROW(world.run(TensorRequest{.inputs = {repeated}}), InvalidArgument);
    EXPECT_THROW(world.run(TensorRequest{.inputs = {dense, repeated}}), InvalidArgument);
    EXPECT_THROW(world.exchange({Message::from(0, repeated)}), InvalidArgument);
    world.all_reduce(repeated, dense);
    EXPECT_THAT(std::span(memory, 4), Each(2));
    world.run(TensorRequest{
        .collective = Collective::all_gather, .inputs = {repeated}, .outputs = {long_one}});
    EXPECT_THAT(memory, Each(1));
    if (world.rank() == 0) world.exchange({Message::to(1, repeated)});
    if (world.rank() == 1) world.exchange({Message::from(0, dense)});
    EXPECT_THAT(memory, Each(1));
  });
}

}  // namespace
}  // namespace capstan
