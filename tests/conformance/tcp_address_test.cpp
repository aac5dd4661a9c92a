// SPDX-License-Identifier: Apache-2.0

// Addresses that the TCP transport publishes to its peers, and the order in which they try them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "core/platform/net/host_identity.hpp"
#include "tests/conformance/tcp_pair.hpp"

namespace capstan::conformance {
namespace {

using tcp::TcpAddress;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

HostAddress local(const std::string& interface, std::string_view ip, unsigned prefix) {
  return {.interface = interface, .ip = IpAddress::parse(ip).value(), .prefix = prefix};
}

std::vector<std::string> texts(const std::vector<IpEndpoint>& endpoints) {
  std::vector<std::string> result;
  for (const auto& endpoint : endpoints) result.push_back(endpoint.text());
  return result;
}

TEST(TcpAddress, SurvivesEncoding) {
  const auto transport = make_tcp_transport(Rank{0}, 1, Bytes{64}, on_loopback());
  const Address encoded = transport->address();
  EXPECT_LE(encoded.size(), 400u);
  const TcpAddress address = decoded_tcp(encoded);
  EXPECT_EQ(address.encode(), encoded);
  ASSERT_EQ(address.endpoints().size(), 1u);
  EXPECT_EQ(address.endpoints()[0].ip.text(), "127.0.0.1");
  EXPECT_NE(address.endpoints()[0].port, 0);
  EXPECT_EQ(address.host, network_identity());
}

TEST(TcpAddress, IsDifferentEachTime) {
  const auto a = make_tcp_transport(Rank{0}, 1, Bytes{64}, on_loopback());
  const auto b = make_tcp_transport(Rank{0}, 1, Bytes{64}, on_loopback());
  EXPECT_NE(decoded_tcp(a->address()).id, decoded_tcp(b->address()).id);
  EXPECT_NE(endpoint_of(*a).port, endpoint_of(*b).port);
}

TEST(TcpAddress, RefusesWhatItDidNotEncode) {
  const Address good = make_tcp_transport(Rank{0}, 1, Bytes{64}, on_loopback())->address();
  Address cut = good, newer = good;
  cut.pop_back();
  newer[0] ^= std::byte{1};
  EXPECT_FALSE(TcpAddress::decode(cut));
  EXPECT_FALSE(TcpAddress::decode(newer));
  EXPECT_FALSE(TcpAddress::decode({}));
  TcpAddress many = decoded_tcp(good), strange = many;
  many.count = TcpAddress::most_endpoints + 1;
  strange.entries[0].family = 5;
  EXPECT_FALSE(TcpAddress::decode(many.encode()));
  EXPECT_FALSE(TcpAddress::decode(strange.encode()));
}

TEST(TcpAddress, NearAddressesAreTriedFirst) {
  TcpAddress peer;
  for (const auto* ip : {"2001:db8::1", "198.51.100.7", "10.1.2.3", "127.0.0.1", "::1"}) {
    peer.add({IpAddress::parse(ip).value(), 4711});
  }
  const std::vector<HostAddress> own{local("eth0", "192.0.2.5", 24), local("eth1", "10.1.9.9", 16),
                                     local("lo", "127.0.0.1", 8)};
  TcpAddress here;
  here.host = peer.host = 1;
  EXPECT_THAT(texts(order_to_try(here, own, peer)),
              ElementsAre("127.0.0.1:4711", "[::1]:4711", "10.1.2.3:4711", "198.51.100.7:4711",
                          "[2001:db8::1]:4711"));
  here.host = 2;  // its loopback is not this one's
  EXPECT_THAT(texts(order_to_try(here, own, peer)),
              ElementsAre("10.1.2.3:4711", "198.51.100.7:4711", "[2001:db8::1]:4711"));
}

}  // namespace
}  // namespace capstan::conformance
