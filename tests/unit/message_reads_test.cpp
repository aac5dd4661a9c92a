// SPDX-License-Identifier: Apache-2.0

// Long messages that network cards read out of their senders' memory, in steps that the test makes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "tests/unit/message_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;

constexpr std::size_t size = 5000;  // five steps

class MessageReads : public ::testing::Test {
 protected:
  Cards& cards() { return world_.base().cards; }
  std::shared_ptr<Transfer> send(int value = 7) {
    return world_.send(0, 1, 1, filled(size, value));
  }
  std::shared_ptr<Transfer> receive() { return world_.receive(1, 0, 1, size); }
  /// Until the card has read a part of the message.
  void begin(const Transfer& got) {
    while (got.pointer->done == 0) {
      world_.advance(0);
      world_.advance(1);
    }
  }
  void fail(int rank) {
    world_.at(rank).fail_all(std::make_exception_ptr(Aborted("the test ends rank")));
  }

  MessageWorld world_{2, Memory::read_by_cards, {Bytes{1 << 20}}};
};

TEST_F(MessageReads, ALongMessageIsReadOnceAndItsMemoryHiddenAgain) {
  const auto sent = send(), got = receive();
  begin(*got);
  EXPECT_FALSE(sent->finished || got->finished);
  EXPECT_EQ(cards().exposed.size(), 1U);
  world_.settle();
  EXPECT_EQ(finished(std::vector{sent, got}), 2);
  EXPECT_THAT(got->data, Each(7));
  EXPECT_EQ(cards().reads, 1);
  EXPECT_EQ(cards().exposed.size(), 0U);
  EXPECT_EQ(cards().revoked + cards().ended, 0);
}

TEST_F(MessageReads, AShortMessageIsNeverRead) {
  const auto sent = world_.send(0, 1, 1, filled(eager.value(), 3)), got = receive();
  world_.settle();
  EXPECT_EQ(finished(std::vector{sent, got}), 2);
  EXPECT_EQ(cards().reads, 0);
}

TEST_F(MessageReads, WhereACardRefusesFragmentsTravel) {
  for (bool* const refusal : {&cards().expose, &cards().read}) {
    *refusal = false;
    const auto sent = send(), got = receive();
    world_.settle();
    EXPECT_EQ(finished(std::vector{sent, got}), 2);
    EXPECT_THAT(got->data, Each(7));
    *refusal = true;
  }
  EXPECT_EQ(cards().reads, 0);
  EXPECT_EQ(cards().exposed.size(), 0U);
}

/// Nobody is gone, and nobody is late.
class PatientJudge final : public Messages::Judge {
  std::optional<std::string> gone(Rank) override { return std::nullopt; }
  std::exception_ptr lost(const Messages::MessageTransfer&, Rank, const std::string&) override {
    return nullptr;
  }
  bool is_late(Messages::Time::duration) override { return false; }
  std::exception_ptr late(const Messages::MessageTransfer&, Rank,
                          Messages::Time::duration) override {
    return nullptr;
  }
};

/// A card reads them one after the other, so the last of many waits for long.
TEST_F(MessageReads, AMessageThatHasBeenReadRestartsTheWaitsOfThoseBehindIt) {
  const std::vector sent{send(), send(), send()};
  PatientJudge judge;
  const auto now = Messages::Time::clock::now();
  const auto since = [&](int seconds) {
    world_.at(0).check(now + std::chrono::seconds{seconds}, judge);
    return (world_.at(0).awaited().at(0).since - now) / std::chrono::seconds{1};
  };
  EXPECT_EQ(since(0), 0);
  EXPECT_EQ(since(10), 0);
  const auto got = receive();
  world_.settle();
  EXPECT_TRUE(got->finished && sent[0]->finished && !sent[1]->finished);
  EXPECT_EQ(since(20), 20);
  EXPECT_EQ(since(30), 20);
}

/// The longest of several waits for one rank is reported.
TEST_F(MessageReads, TheOldestOfSeveralReceivesIsAwaited) {
  PatientJudge judge;
  const auto now = Messages::Time::clock::now();
  std::vector<std::shared_ptr<Transfer>> posted;
  for (int i = 0; i < 3; ++i) {
    posted.push_back(receive());
    world_.at(1).check(now + std::chrono::seconds{i}, judge);
  }
  const auto awaited = world_.at(1).awaited();
  ASSERT_EQ(awaited.size(), 1U);
  EXPECT_EQ(awaited.front().since, now);
}

/// The card writes to the buffer: nobody gets it back before.
TEST_F(MessageReads, ABufferThatACardWritesToIsNotGivenBack) {
  const auto sent = send(), got = receive();
  EXPECT_TRUE(world_.at(1).can_detach(got->pointer));
  begin(*got);
  EXPECT_FALSE(world_.at(1).can_detach(got->pointer));
  EXPECT_FALSE(world_.at(0).can_detach(sent->pointer));
  fail(1);
  EXPECT_TRUE(got->finished && got->error);
  EXPECT_EQ(cards().ended, 1) << "the read had ended when the buffer was given back";
}

/// A read of memory that its owner uses again would give wrong data.
TEST_F(MessageReads, ASenderThatFailsHidesItsMemoryBeforeItGivesItBack) {
  const auto sent = send(), got = receive();
  begin(*got);
  fail(0);
  EXPECT_TRUE(sent->finished && sent->error);
  EXPECT_EQ(cards().revoked, 1);
  std::ranges::fill(sent->data, 0xdd);
  world_.settle();
  EXPECT_FALSE(got->finished) << "what has been read is not taken for the message";
  EXPECT_TRUE(got->pointer->read->failed);
}

/// Memory of devices. A host copy is made only where a card does not reach it.
class MessageReadsOnDevices : public MessageReads {
 protected:
  /// Takes the buffer of a transfer for memory of a device.
  void put_on_device(const std::shared_ptr<Transfer>& transfer) {
    transfer->pointer->make_special().stage = [this](Messages::MessageTransfer& message) {
      ++staged_;
      const auto copy = std::make_shared<std::vector<std::byte>>(message.size);
      if (message.sends) std::copy_n(message.data, message.size, copy->data());
      std::byte* const device = std::exchange(message.data, copy->data());
      message.make_special().owner = copy;
      if (!message.sends)
        message.special->unpack = [copy, device](Bytes bytes) {
          std::copy_n(copy->data(), bytes.value(), device);
        };
    };
  }
  std::shared_ptr<Transfer> send_from_device(std::size_t bytes = size) {
    auto transfer = world_.make(1, 1, filled(bytes, 9));
    put_on_device(transfer);
    world_.at(0).send(transfer->pointer);
    return transfer;
  }
  std::shared_ptr<Transfer> receive_on_device(int source = 0) {
    auto transfer = world_.make(source, 1, filled(size, 0xee));
    put_on_device(transfer);
    world_.at(1).receive(transfer->pointer);
    return transfer;
  }

  int staged_ = 0;
};

TEST_F(MessageReadsOnDevices, ACardMovesTheMessageFromDeviceToDevice) {
  cards().expose_devices = cards().read_devices = true;
  const auto sent = send_from_device(), got = receive_on_device();
  EXPECT_TRUE(world_.at(0).may_stay_on_device(*sent->pointer));
  world_.settle();
  EXPECT_EQ(finished(std::vector{sent, got}), 2);
  EXPECT_THAT(got->data, Each(9));
  EXPECT_EQ(staged_, 0);
  EXPECT_EQ(cards().reads, 1);
}

/// Each side decides for its own memory.
TEST_F(MessageReadsOnDevices, OnlyTheSideThatItsCardDoesNotReachIsStaged) {
  for (const bool sender_can : {true, false}) {
    cards().expose_devices = sender_can;
    cards().read_devices = !sender_can;
    staged_ = cards().reads = 0;
    const auto sent = send_from_device(), got = receive_on_device();
    world_.settle();
    EXPECT_EQ(finished(std::vector{sent, got}), 2);
    EXPECT_THAT(got->data, Each(9));
    EXPECT_EQ(staged_, 1);
    EXPECT_EQ(cards().reads, 1);
  }
}

TEST_F(MessageReadsOnDevices, FragmentsTravelThroughHostMemory) {
  cards().expose = cards().read = false;
  cards().expose_devices = true;
  const auto sent = send_from_device(), got = receive_on_device(any_source);
  world_.settle();
  EXPECT_EQ(finished(std::vector{sent, got}), 2);
  EXPECT_THAT(got->data, Each(9));
  EXPECT_EQ(staged_, 2);
}

TEST_F(MessageReadsOnDevices, AShortMessageIntoALongBufferIsStaged) {
  cards().expose_devices = cards().read_devices = true;
  const auto got = receive_on_device();
  const auto sent = send_from_device(100);
  world_.settle();
  EXPECT_EQ(finished(std::vector{sent, got}), 2);
  EXPECT_THAT(std::span{got->data}.first(100), Each(9));
  EXPECT_THAT(std::span{got->data}.subspan(100), Each(0xee));
  EXPECT_EQ(staged_, 2);
}

TEST_F(MessageReadsOnDevices, WithoutRoomForAHostCopyTheReceiveHasTheError) {
  const auto got = receive_on_device();
  got->pointer->make_special().stage = [](Messages::MessageTransfer&) {
    throw LimitReached("no pinned memory");
  };
  const auto sent = send();
  world_.settle();
  EXPECT_TRUE(got->finished && got->error);
  EXPECT_TRUE(sent->finished && !sent->error) << "the message is dropped";
}

}  // namespace
}  // namespace capstan
