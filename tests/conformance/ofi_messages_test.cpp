// SPDX-License-Identifier: Apache-2.0

// Long messages that libfabric's software for TCP reads out of their senders' memory. The ranks of
// a test are driven by one thread, in a process of its own: libfabric is not loaded before it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "capstan/error.hpp"
#include "tests/conformance/world.hpp"
#include "tests/unit/message_world.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan {
namespace {

using conformance::run_alone;
using conformance::wait_until;

ExecutorWorld::Transports connected_over_tcp(int ranks, Bytes segment, OfiOptions options) {
  options.key = conformance::test_key();
  options.provider = "tcp";
  ExecutorWorld::Transports all;
  std::vector<Address> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(make_ofi_transport(Rank{rank}, ranks, segment, options));
    addresses.push_back(all.back()->address());
  }
  std::vector<std::jthread> connecting;
  for (const auto& transport : all)
    connecting.emplace_back(
        [&] { transport->connect(addresses, Deadline::in(conformance::patience)); });
  return all;
}

class OfiMessages : public testing::TestWithParam<OfiPushes> {
 protected:
  void SetUp() override {
    if (!ofi_is_built_in()) GTEST_SKIP() << "this build has no libfabric";
  }

  /// Runs a test with a world of its own.
  void run(const std::function<void()>& body) {
    run_alone([&] {
      const auto make = [](int count, Bytes segment) {
        return connected_over_tcp(count, segment,
                                  {.pushes = GetParam(), .reads_by_software = true});
      };
      world_.emplace(ranks, make, Bytes{100'000});
      body();
      world_.reset();
    });
  }
  void advance_all() {
    for (int rank = 0; rank < ranks; ++rank) world_->advance(rank);
  }
  void await(const std::vector<std::shared_ptr<Transfer>>& transfers) {
    wait_until(
        [&] {
          advance_all();
          return std::ranges::all_of(transfers, [](const auto& one) { return one->finished; });
        },
        "messages");
  }
  void fail(int rank) {
    world_->at(rank).fail_all(std::make_exception_ptr(Aborted("the test ends this rank")));
  }

  static constexpr int ranks = 3;
  static constexpr std::size_t large = 40 << 20;
  /// A message whose memory outlives the world, as software may still be sending from it.
  std::shared_ptr<Transfer> kept_;
  std::optional<MessageWorld> world_;
};

INSTANTIATE_TEST_SUITE_P(All, OfiMessages, testing::Values(OfiPushes::write, OfiPushes::messages),
                         [](const auto& test) {
                           return test.param == OfiPushes::write ? "Writes" : "Messages";
                         });

TEST_P(OfiMessages, ALongOneIsReadOutOfItsSendersMemory) {
  run([this] {
    const auto sent = world_->send(0, 1, 1, filled(100'003, 7));
    EXPECT_NE(sent->pointer->exposed, nullptr);
    const auto got = world_->receive(1, 0, 1, 100'003);
    wait_until([&] { return advance_all(), got->pointer->read || got->finished; }, "a read");
    await({sent, got});
    EXPECT_EQ(finished(std::vector{sent, got}), 2);
    EXPECT_EQ(std::ranges::count(got->data, 7), std::ssize(got->data));
    EXPECT_EQ(sent->pointer->exposed, nullptr);
  });
}

TEST_P(OfiMessages, ABufferIsGivenBackWhenNothingIsReadIntoItAnyMore) {
  run([this] {
    const auto sent = kept_ = world_->send(0, 1, 1, filled(large, 7));
    const auto got = world_->receive(1, 0, 1, large);
    wait_until([&] { return advance_all(), got->pointer->done > 0; }, "a part of a message");
    ASSERT_FALSE(got->finished);
    EXPECT_FALSE(world_->at(1).can_detach(got->pointer));
    fail(1);  // while rank 0 answers nothing
    EXPECT_TRUE(got->finished && got->error);
    std::ranges::fill(got->data, 0xdd);
    for (int i = 0; i < 10'000; ++i) advance_all();
    EXPECT_EQ(std::ranges::count(got->data, 0xdd), std::ssize(got->data));
  });
}

TEST_P(OfiMessages, ASenderThatFailsHidesItsMemory) {
  run([this] {
    const auto sent = kept_ = world_->send(0, 1, 1, filled(large, 7));
    const auto got = world_->receive(1, 0, 1, large);
    wait_until([&] { return advance_all(), got->pointer->read != nullptr; }, "a read");
    ASSERT_FALSE(got->finished);
    fail(0);
    EXPECT_TRUE(sent->finished && sent->error);
    wait_until([&] { return advance_all(), got->pointer->read->failed.load(); }, "the failure");
    EXPECT_FALSE(got->finished) << "what has been read is not taken for the message";
  });
}

/// A message of a random program, not sent or not received yet.
struct Planned {
  int from, to, tag;
  std::size_t size;
  int number;
};

std::vector<std::uint8_t> content(const Planned& message) {
  std::mt19937 random{static_cast<unsigned>(message.number)};
  std::vector<std::uint8_t> bytes(message.size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::size_t draw_size(std::mt19937& random) {
  const auto kind = random() % 100;
  if (kind < 30) return random() % 2000;
  return random() % (kind < 95 ? 100'000 : 3'000'000);
}

TEST_P(OfiMessages, RandomProgramsEndWithEveryMessageInOrder) {
  run([this] {
    std::mt19937 random{4711};
    for (int program = 0; program < 5; ++program) {
      std::map<std::tuple<int, int, int>, std::deque<Planned>> to_send, to_receive;
      for (int number = 0; number < 100; ++number) {
        const Planned one{static_cast<int>(random() % ranks), static_cast<int>(random() % ranks),
                          static_cast<int>(random() % 3), draw_size(random), number};
        for (auto* const plan : {&to_send, &to_receive})
          (*plan)[{one.from, one.to, one.tag}].push_back(one);
      }
      const auto draw = [&](auto& plan) {
        auto chosen = std::next(plan.begin(), static_cast<int>(random() % plan.size()));
        const Planned one = chosen->second.front();
        chosen->second.pop_front();
        if (chosen->second.empty()) plan.erase(chosen);
        return one;
      };
      std::vector<std::shared_ptr<Transfer>> sent, got;
      std::vector<Planned> expected;
      while (!to_send.empty() || !to_receive.empty()) {
        const auto action = random() % 4;
        if (action == 0 && !to_send.empty()) {
          const Planned one = draw(to_send);
          sent.push_back(world_->send(one.from, one.to, one.tag, content(one)));
        } else if (action == 1 && !to_receive.empty()) {
          expected.push_back(draw(to_receive));
          const Planned& one = expected.back();
          got.push_back(world_->receive(one.to, one.from, one.tag, one.size + random() % 3));
        } else {
          world_->advance(static_cast<int>(random() % ranks));
        }
      }
      await(sent);
      await(got);
      EXPECT_EQ(finished(sent) + finished(got), 200);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i]->info.size.value(), expected[i].size);
        const auto data = std::span{got[i]->data}.first(expected[i].size);
        EXPECT_TRUE(std::ranges::equal(data, content(expected[i]))) << "message " << i;
      }
    }
  });
}

/// Reads by software gain nothing: messages are pushed.
TEST(OfiMessagesByDefault, ProvidersOfSoftwareReadNothing) {
  if (!ofi_is_built_in()) GTEST_SKIP() << "this build has no libfabric";
  run_alone([] {
    const auto transports =
        connected_over_tcp(2, Bytes{4096}, {.gpu_direct = GpuDirectUse::always});
    std::vector<std::byte> data(10'000);
    const Bytes size{data.size()};
    EXPECT_EQ(transports[0]->expose(Rank{1}, data.data(), size, MemoryKind::host), nullptr);
    EXPECT_EQ(transports[0]->start_read(Rank{1}, 4096, 1, data.data(), size, MemoryKind::host),
              nullptr);
    EXPECT_FALSE(transports[0]->reaches_devices());
  });
}

/// Where a provider takes no memory of devices it is staged, whatever was asked for.
TEST(OfiMessagesByDefault, MemoryOfDevicesNeedsAProviderThatTakesIt) {
  if (!ofi_is_built_in()) GTEST_SKIP() << "this build has no libfabric";
  run_alone([] {
    const auto transports = connected_over_tcp(
        2, Bytes{4096}, {.gpu_direct = GpuDirectUse::never, .reads_by_software = true});
    std::vector<std::byte> data(10'000);
    const Bytes size{data.size()};
    EXPECT_FALSE(transports[0]->reaches_devices());
    EXPECT_EQ(transports[0]->expose(Rank{1}, data.data(), size, MemoryKind::device), nullptr);
    EXPECT_EQ(transports[0]->start_read(Rank{1}, 4096, 1, data.data(), size, MemoryKind::device),
              nullptr);
  });
}

}  // namespace
}  // namespace capstan
