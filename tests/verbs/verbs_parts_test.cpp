// SPDX-License-Identifier: Apache-2.0

// The parts of the transport over verbs that need no device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "capstan/error.hpp"
#include "transports/verbs/gid.hpp"
#include "transports/verbs/greeter.hpp"
#include "transports/verbs/verbs_address.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::verbs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ibv_gid_entry entry(std::uint32_t index, ibv_gid_type type, std::array<std::uint8_t, 16> bytes,
                    std::uint32_t port = 1) {
  ibv_gid_entry result{};
  std::ranges::copy(bytes, result.gid.raw);
  result.gid_index = index;
  result.port_num = port;
  result.gid_type = type;
  return result;
}

constexpr std::array<std::uint8_t, 16> link_local{0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                                  2,    0,    0, 0, 0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> global{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0,
                                              0,    0, 0,   0,    0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 80, 0, 2};

TEST(VerbsGid, RoutableAddressesOfIpv4ArePreferred) {
  const std::array table{
      entry(0, IBV_GID_TYPE_ROCE_V1, link_local), entry(1, IBV_GID_TYPE_ROCE_V2, link_local),
      entry(2, IBV_GID_TYPE_ROCE_V1, ipv4),       entry(3, IBV_GID_TYPE_ROCE_V2, global),
      entry(4, IBV_GID_TYPE_ROCE_V2, ipv4),       entry(5, IBV_GID_TYPE_ROCE_V2, ipv4, 2)};
  const auto index_of_best = [&](std::size_t first) {
    return choose_gid(std::span{table}.first(first), 1, -1)->gid_index;
  };
  EXPECT_EQ(index_of_best(1), 0u);
  EXPECT_EQ(index_of_best(2), 1u);
  EXPECT_EQ(index_of_best(3), 1u) << "v2 of any kind is better than v1";
  EXPECT_EQ(index_of_best(4), 3u);
  EXPECT_EQ(index_of_best(6), 4u);
  EXPECT_EQ(choose_gid(table, 2, -1)->gid_index, 5u);
}

TEST(VerbsGid, ACallerCanForceOneThatIsThere) {
  const std::array table{entry(0, IBV_GID_TYPE_ROCE_V1, link_local),
                         entry(1, IBV_GID_TYPE_ROCE_V2, ipv4)};
  EXPECT_EQ(choose_gid(table, 1, 0)->gid_index, 0u);
  EXPECT_FALSE(choose_gid(table, 1, 2));
  EXPECT_FALSE(choose_gid(table, 3, -1));
}

TEST(VerbsGid, AreWrittenAsAddresses) {
  EXPECT_EQ(text_of(entry(0, IBV_GID_TYPE_ROCE_V2, ipv4).gid), "10.80.0.2");
  EXPECT_EQ(text_of(entry(0, IBV_GID_TYPE_ROCE_V2, global).gid), "2001:db8::1");
}

VerbsAddress an_address() {
  VerbsAddress address = VerbsAddress::of_this_process(Bytes{4096}, Bytes{1 << 20});
  address.greeter = 17;
  address.mtu = IBV_MTU_4096;
  address.ethernet = 1;
  return address;
}

TEST(VerbsAddress, SurvivesTheExchange) {
  const VerbsAddress address = an_address();
  const Address bytes = address.encode();
  EXPECT_LE(bytes.size(), 400u) << "for any number of ranks";
  const auto decoded = VerbsAddress::decode(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, address.id);
  EXPECT_EQ(decoded->greeter, 17u);
  EXPECT_EQ(decoded->host(), address.host());
}

TEST(VerbsAddress, IsRefusedWhenItIsNone) {
  const VerbsAddress good = an_address();
  EXPECT_FALSE(VerbsAddress::decode(Address{}));
  EXPECT_FALSE(VerbsAddress::decode(Address(good.encode().size())));
  const auto is_refused = [&](auto&& change) {
    VerbsAddress bad = good;
    change(bad);
    return !VerbsAddress::decode(bad.encode());
  };
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.format ^= 1; }));
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.segment = 0; }));
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.greeter = 1 << 24; }));
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.mtu = 0; }));
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.mtu = 6; }));
  EXPECT_TRUE(is_refused([](VerbsAddress& bad) { bad.host_name.back() = 'x'; }));
}

TEST(VerbsAddress, IdsDiffer) {
  EXPECT_NE(an_address().id, an_address().id);
}

TEST(VerbsGreeting, IsSealedAsAWhole) {
  const Secret key = Secret::random();
  const Greeting good = Greeting{.from = 3, .answered = 1, .end = {.queue_pair = 9}}.sealed(key);
  EXPECT_TRUE(good.is_sealed(key));
  EXPECT_FALSE(good.is_sealed(Secret::random()));
  EXPECT_FALSE(Greeting{}.is_sealed(key));
  Greeting bad = good;
  bad.end.mirror ^= 8;
  EXPECT_FALSE(bad.is_sealed(key));
  bad = good;
  bad.from = 2;
  EXPECT_FALSE(bad.is_sealed(key));
}

TEST(VerbsAddress, SaysWhatKeepsTwoApart) {
  const VerbsAddress own = an_address();
  VerbsAddress peer = own;
  EXPECT_EQ(own.obstacle_to(peer), std::nullopt);
  peer.ethernet = 0;
  EXPECT_THAT(*own.obstacle_to(peer), HasSubstr("InfiniBand"));
  peer = own;
  peer.segment = 8192;
  EXPECT_THAT(*own.obstacle_to(peer), HasSubstr("8192"));
  peer = own;
  peer.piece = 4096;
  EXPECT_THAT(*own.obstacle_to(peer), HasSubstr("pieces of 4096"));
}

TEST(VerbsDevices, ThereIsAReasonExactlyWhenThereIsNone) {
  EXPECT_EQ(verbs_devices().empty(), !verbs_obstacle().empty()) << verbs_obstacle();
}

TEST(VerbsDevices, OneThatIsNotThereIsAnError) {
  VerbsOptions options;
  options.devices = {"no_such_device"};
  try {
    make_verbs_transport(Rank{3}, 4, Bytes{64}, options);
    FAIL() << "there is such a device";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("rank 3: set up verbs"), HasSubstr("no RDMA device")));
  }
}

TEST(VerbsDevices, PiecesThatCannotBeAreRefused) {
  for (const std::uint64_t size : {0, 2048, 5000}) {
    VerbsOptions options;
    options.piece = Bytes{size};
    EXPECT_THROW(make_verbs_transport(Rank{0}, 1, Bytes{64}, options), InvalidArgument);
  }
}

}  // namespace
}  // namespace capstan::verbs
