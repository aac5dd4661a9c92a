// SPDX-License-Identifier: Apache-2.0

// Messages of unknown length, which are received into new memory, and those into tensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "capstan/owning_tensor.hpp"
#include "capstan/tensor.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;

/// Threads that receive messages of any length at the same time lose none.
TEST(Requirement, M23_AReceiveAllocatesWhatNoOtherThreadTakes) {
  constexpr int count = 200, threads = 4;
  on_threads(2, bounded_settings(), [](Communicator& world) {
    if (world.rank() == 0) {
      for (int i = 0; i < count; ++i) {
        const std::vector<int> message(static_cast<std::size_t>(i) * (i % 50 == 49 ? 500 : 1), i);
        world.send(message, 1, i % 3);
      }
      return;
    }
    std::atomic<int> sum = 0;
    {
      std::vector<std::jthread> receivers;
      for (int t = 0; t < threads; ++t)
        receivers.emplace_back([&] {
          for (int i = 0; i < count / threads; ++i) {
            const Received<int> received = world.receive<int>();
            const std::size_t size = received.elements.size();
            EXPECT_EQ(received.info.size.value(), 4 * size);
            EXPECT_EQ(received.info.source, 0);
            if (size == 0) continue;
            const int number = received.elements.front();
            EXPECT_THAT(received.elements, Each(number));
            EXPECT_EQ(size, static_cast<std::size_t>(number) * (number % 50 == 49 ? 500 : 1));
            sum += number;
          }
        });
    }
    EXPECT_EQ(sum, count * (count - 1) / 2);
  });
}

TEST(Requirement, M23_ATensorComesBackWithTheTypeOfTheMessage) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    if (world.rank() == 0) {
      const Tensor sent = Tensor::of<double>({1, 2, 3, 4}, {2, 2});
      world.send(sent, 1, 5);
      world.send(sent, 1, 6);
      return world.barrier();
    }
    EXPECT_EQ(world.receive_tensor(0, 5), Tensor::of<double>({1, 2, 3, 4}));
    EXPECT_THROW(world.receive<float>(0, 6), Mismatch);
    world.barrier();
  });
}

TEST(Requirement, M24_TheShapeOfAReceivedTensorIsChecked) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> memory(24, static_cast<float>(world.rank()));
    const TensorView columns{memory.data(), {3, 2}, {4, 1}}, rows{memory.data(), {2, 3}};
    if (world.rank() == 0) {
      for (int i = 0; i < 2; ++i) world.send(columns, 1, i);
      world.send(std::span{memory}.first(6), 1, 2);
      world.send(std::span{memory}.first(5), 1, 3);
      std::vector<float> long_memory(40'000);
      const TensorView offered{long_memory.data(), {100, 200}, {200, 1}};
      return world.exchange({Message::to(1, offered, 4), Message::to(1, offered, 5)});
    }
    world.receive(columns, 0, 0);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(memory[i], i % 4 < 2 ? 0 : 1) << i;
    EXPECT_THROW(world.receive(rows, 0, 1), Mismatch);
    world.receive(rows, 0, 2);  // a range has no shape, but enough elements
    EXPECT_THAT(std::span(memory).first(6), Each(0));
    EXPECT_THROW(world.receive(rows, 0, 3), Mismatch);
    Tensor received(DataType::f32, {100, 200}), other(DataType::f32, {200, 100});
    const Work fits = world.start_receive(received, 0, 4),
               not_so = world.start_receive(other, 0, 5);
    fits.wait();
    EXPECT_THROW(not_so.wait(), Mismatch);
  });
}

TEST(Requirement, M26_AMessageOfUnknownLengthIsReceivedInTheBackground) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const Work work = world.start_receive<int>(1 - world.rank(), 7);
    const std::vector<int> sent(1 + 50'000 * static_cast<std::size_t>(world.rank()), 3);
    world.start_send(sent, 1 - world.rank(), 7).wait();
    work.wait();
    EXPECT_EQ(work.result<int>().size(), world.rank() == 0 ? 50'001U : 1U);
    EXPECT_THAT(work.result<int>(), Each(3));
    EXPECT_EQ(work.message().value().tag, 7);
    EXPECT_THROW((void)work.result<float>(), InvalidArgument);
  });
}

}  // namespace
}  // namespace capstan
