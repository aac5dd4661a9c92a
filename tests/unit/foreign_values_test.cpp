// SPDX-License-Identifier: Apache-2.0

// A peer's values are checked before they index a table, size a copy or name something.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <climits>

#include "core/platform/net/foreign.hpp"
#include "core/schedule/lowering/call.hpp"
#include "tests/hostile_peer.hpp"
#include "transports/shm/sleeper.hpp"

namespace capstan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = MessageFrame::Kind;

Messages::TransferPointer receive_into(HostileWorld& world, std::vector<std::byte>& buffer,
                                       std::optional<DataType> type = {}) {
  auto transfer = std::make_shared<Messages::MessageTransfer>();
  transfer->finished = [](std::exception_ptr, const MessageInfo&) {};
  transfer->data = buffer.data();
  transfer->size = buffer.size();
  transfer->type = type;
  world.messages().receive(transfer);
  return transfer;
}

TEST(ForeignValues, FramesThatNobodySendsAreRefused) {
  const std::byte some[64]{};
  struct Case {
    MessageFrame frame;
    std::string_view field;
  };
  for (const auto& [frame, field] : {
           Case{{.kind = static_cast<Kind>(77)}, "the kind of a message is 77"},
           Case{{.type_number = 100, .size = 8, .payload = 8}, "the type of a message is 100"},
           Case{{.tag = -1, .size = 8, .payload = 8}, "the tag of a message"},
           Case{{.size = 9, .payload = 8}, "the length of a message's frame is 8"},
           Case{{.kind = Kind::offer, .size = 8, .payload = 8}, "the length of a message's frame"},
           Case{{.kind = Kind::stream, .payload = 8}, "the length of a message's frame"},
           Case{{.size = UINT32_MAX, .payload = UINT32_MAX}, "the length of a message's frame"},
       }) {
    HostileWorld world;
    std::vector<std::byte> buffer(4096);
    receive_into(world, buffer, DataType::f32);
    world.put(frame, std::span{some}.first(frame.payload == 8 ? 8 : 0));
    EXPECT_THAT(world.complaint_about_messages(),
                AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr(std::string{field})));
  }
}

TEST(ForeignValues, CountsOfARingAreChecked) {
  HostileWorld world;
  world.publish(4097);
  EXPECT_THAT(world.complaint_about_messages(), HasSubstr("4097, which cannot be"));
  HostileWorld other;
  other.say_consumed(99);  // so many are not sent before rank 0 needs to look
  std::vector<std::byte> buffer(8);
  const auto send = [&] {
    auto transfer = std::make_shared<Messages::MessageTransfer>();
    transfer->peer = 1;
    transfer->tag = 0;
    transfer->data = buffer.data();
    transfer->size = buffer.size();
    other.messages().send(transfer);
  };
  for (std::uint64_t i = 0; i < Rings::lines(HostileWorld::ring); ++i) send();
  EXPECT_THAT(HostileWorld::complaint(send), HasSubstr("has consumed"));
}

// Rank 1 answers what rank 0 has offered to rank 2: it must not end that send, nor get the data.
TEST(ForeignValues, OnlyTheReceiverOfAnOfferAnswersIt) {
  for (const Kind kind : {Kind::acknowledged, Kind::stream}) {
    HostileWorld world;
    std::vector<std::byte> buffer(HostileWorld::ring.value() + 1);
    auto transfer = std::make_shared<Messages::MessageTransfer>();
    bool finished = false;
    transfer->finished = [&](std::exception_ptr, const MessageInfo&) { finished = true; };
    transfer->peer = 2;
    transfer->tag = 0;
    transfer->data = buffer.data();
    transfer->size = buffer.size();
    world.messages().send(transfer);
    world.put({.kind = kind, .id = transfer->id});
    EXPECT_THAT(world.complaint_about_messages(),
                AllOf(HasSubstr("rank 1"), HasSubstr("the offer that it has been made")));
    EXPECT_FALSE(finished);
  }
}

TEST(ForeignValues, MoreFragmentsThanWereOfferedAreRefused) {
  HostileWorld world;
  std::vector<std::byte> buffer(600);
  receive_into(world, buffer);
  world.put({.kind = Kind::offer, .size = 600, .id = 5});
  EXPECT_THAT(world.complaint_about_messages(), IsEmpty());
  const std::vector<std::byte> bytes(601);
  world.put({.kind = Kind::fragment, .payload = 601, .id = 5}, bytes);
  EXPECT_THAT(world.complaint_about_messages(), HasSubstr("the length of a fragment is 601"));
}

TEST(ForeignValues, AnAllocationOfWiderNumberThanAnyIsRefused) {
  HostileWorld world{true};
  std::vector<std::byte> buffer(600);
  receive_into(world, buffer);
  world.put({.kind = Kind::offer, .size = 600, .id = 5, .memory = (std::uint64_t{1} << 32) + 1});
  EXPECT_THAT(world.complaint_about_messages(), HasSubstr("the allocation of a message"));
}

TEST(ForeignValues, CallsThatCannotBeAreDescribed) {
  for (std::uint64_t signature = 0; signature < 64; ++signature) {
    const CallMark mark{.signature = ~std::uint64_t{0} >> signature, .count = 3, .root = ~0ull};
    EXPECT_FALSE(to_string(mark).empty());
  }
  HostileWorld world;
  world.log().begin(mark_of({}, {}), mark_of({}, {}).digest(), nullptr);
  CallRecord& record = world.hostile_control().calls[1];
  const CallMark mark{.signature = 0xffff'ffff'ffff'ff01, .count = 7};
  record.signature.store(mark.signature);
  record.count.store(mark.count);
  record.check.store(record_check(1, mark.digest(), 99));
  record.history.store(99);
  record.call.store(1);
  try {
    world.log().compare_all();
    ADD_FAILURE() << "the calls differ";
  } catch (const Mismatch& error) {
    EXPECT_THAT(error.what(), HasSubstr("an unknown collective"));
  }
}

TEST(ForeignValues, AFailureNamesARankThatExists) {
  HostileWorld world;
  AbortRecord& record = world.hostile_control().abort;
  for (const std::int32_t culprit : {-1, 3, INT_MAX, INT_MIN}) {
    record.lost = culprit;
    record.kind.store(1);
    EXPECT_EQ(read(record, 3)->kind, Failure::Kind::aborted) << culprit;
  }
  record.lost = 2;
  EXPECT_EQ(read(record, 3)->kind, Failure::Kind::peer_lost);
  record.kind.store(1000);
  EXPECT_EQ(read(record, 3)->kind, Failure::Kind::aborted);
}

TEST(ForeignValues, SharedMemoryOfImpossibleSizeIsNotMapped) {
  const shared::Allocation own{Bytes{4096}, shared::Kind::shared};
  const auto is_valid = [&](int descriptor, std::uint64_t size) {
    return shared::View::of(::getpid(), descriptor, Bytes{size}, own.token()).valid();
  };
  EXPECT_TRUE(is_valid(own.descriptor(), 4096));
  // Rounded up to pages and with its tail this is 4096 again.
  EXPECT_FALSE(is_valid(own.descriptor(), ~std::uint64_t{0} - 4095));
  EXPECT_FALSE(is_valid(own.descriptor(), ~std::uint64_t{0}));
  EXPECT_FALSE(is_valid(own.descriptor(), 0));
  const FileDescriptor device{::open("/dev/zero", O_RDWR | O_CLOEXEC)};
  EXPECT_FALSE(is_valid(device.get(), 4096));
}

TEST(ForeignValues, OnlyAnEventIsABell) {
  const FileDescriptor bell = shm::make_bell();
  EXPECT_EQ(shm::unsafe_to_ring(bell.get()), std::nullopt);
  const FileDescriptor blocking{::eventfd(0, EFD_CLOEXEC)};
  EXPECT_THAT(*shm::unsafe_to_ring(blocking.get()), HasSubstr("block"));
  const FileDescriptor file{::open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  EXPECT_THAT(*shm::unsafe_to_ring(file.get()), HasSubstr("no event"));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor reader{ends[0]}, writer{ends[1]};
  EXPECT_NE(shm::unsafe_to_ring(writer.get()), std::nullopt);
}

}  // namespace
}  // namespace capstan
