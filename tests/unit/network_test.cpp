// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "capstan/error.hpp"
#include "core/platform/net/listener.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

IpAddress ip(std::string_view text) {
  return IpAddress::parse(text).value();
}

const std::vector<HostAddress> host{
    {.interface = "lo", .ip = ip("127.0.0.1"), .loopback = true},
    {.interface = "docker0", .ip = ip("172.17.0.1")},
    {.interface = "ib0", .ip = ip("fd00:1::7")},
    {.interface = "eth1", .ip = ip("198.51.100.7"), .running = false},
    {.interface = "eth0", .ip = ip("192.0.2.7")},
    {.interface = "eth0", .ip = ip("2001:db8::7")},
    {.interface = "ib0", .ip = ip("10.1.0.7")},
    {.interface = "eth2", .ip = ip("203.0.113.7"), .up = false},
    {.interface = "lo", .ip = ip("::1"), .loopback = true},
};

std::string chosen(std::string_view wanted) {
  return choose_address(wanted, host).address.text();
}

std::string complaint_about_network(std::string_view wanted) {
  try {
    return "chose " + choose_address(wanted, host).address.text();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(Network, ByItselfTakesTheFirstThatIsUpConnectedAndNoContainers) {
  EXPECT_EQ(chosen(""), "192.0.2.7");
}

TEST(Network, FallsBackInSteps) {
  auto left = host;
  const auto next = [&] {
    const auto text = choose_address("", left).address.text();
    std::erase_if(left, [&](const HostAddress& address) { return address.text() == text; });
    return text;
  };
  for (const char* expected : {"192.0.2.7", "10.1.0.7", "fd00:1::7", "2001:db8::7", "172.17.0.1",
                               "198.51.100.7", "127.0.0.1", "::1"})
    EXPECT_EQ(next(), expected);
  EXPECT_THROW(next(), InvalidArgument) << "only one that is down is left";
}

std::vector<std::string> all_chosen(std::string_view wanted) {
  std::vector<std::string> texts;
  for (const HostAddress& address : choose_addresses(wanted, host)) texts.push_back(address.text());
  return texts;
}

TEST(Network, AllThatFitComeInTheOrderInWhichTheyAreToBeUsed) {
  EXPECT_THAT(all_chosen(""), ElementsAre("192.0.2.7", "10.1.0.7", "fd00:1::7", "2001:db8::7",
                                          "172.17.0.1", "198.51.100.7", "127.0.0.1", "::1"));
  EXPECT_THAT(all_chosen("eth0"), ElementsAre("192.0.2.7", "2001:db8::7"));
  EXPECT_THAT(all_chosen("::/0"), ElementsAre("fd00:1::7", "2001:db8::7", "::1"));
  EXPECT_THAT(all_chosen("127.0.0.1"), ElementsAre("127.0.0.1"));
}

TEST(Network, SeveralComeAsTheyAreNamed) {
  EXPECT_THAT(all_chosen("ib0,eth0"),
              ElementsAre("10.1.0.7", "fd00:1::7", "192.0.2.7", "2001:db8::7"));
  EXPECT_THAT(all_chosen("192.0.2.0/24,eth0,"), ElementsAre("192.0.2.7", "2001:db8::7"));
  EXPECT_THAT(complaint_about_network("eth0,eth9"), HasSubstr("CAPSTAN_INTERFACE is \"eth9\""));
  EXPECT_EQ(all_chosen(","), all_chosen(""));
  EXPECT_EQ(choose_address("ib0,eth0", host).reason, "CAPSTAN_INTERFACE names its interface");
}

TEST(Network, SaysThatLoopbackIsNotReachable) {
  EXPECT_THAT(choose_address("", std::span{host}.first(1)).reason, HasSubstr("cannot reach"));
}

TEST(Network, ByNameOfTheInterface) {
  EXPECT_EQ(chosen("ib0"), "10.1.0.7") << "IPv4 first";
  EXPECT_EQ(chosen("eth1"), "198.51.100.7") << "though it is not connected";
  EXPECT_EQ(chosen("lo"), "127.0.0.1");
  EXPECT_EQ(chosen("docker0"), "172.17.0.1");
}

TEST(Network, ByAddress) {
  EXPECT_EQ(chosen("2001:db8::7"), "2001:db8::7");
  EXPECT_EQ(chosen("2001:0db8:0:0::0007"), "2001:db8::7") << "however it is written";
  EXPECT_EQ(chosen("10.1.0.7"), "10.1.0.7");
}

TEST(Network, ByNetwork) {
  EXPECT_EQ(chosen("10.0.0.0/8"), "10.1.0.7");
  EXPECT_EQ(chosen("10.1.0.6/31"), "10.1.0.7");
  EXPECT_EQ(chosen("2001:db8::/32"), "2001:db8::7");
  EXPECT_EQ(chosen("::/0"), "fd00:1::7") << "any IPv6";
  EXPECT_EQ(chosen("0.0.0.0/0"), "192.0.2.7");
  EXPECT_EQ(chosen("198.51.100.7/32"), "198.51.100.7");
}

TEST(Network, WhatDoesNotFitIsRefusedWithWhatThereIs) {
  EXPECT_THAT(complaint_about_network("eth9"),
              AllOf(HasSubstr("CAPSTAN_INTERFACE is \"eth9\""), HasSubstr("no such interface"),
                    HasSubstr("eth0 192.0.2.7"), HasSubstr("eth2 203.0.113.7 (down)")));
  EXPECT_THAT(complaint_about_network("eth2"), HasSubstr("this interface is down"));
  EXPECT_THAT(complaint_about_network("10.1.0.8"), HasSubstr("no address of this host"));
  EXPECT_THAT(complaint_about_network("10.1.0.8/32"), HasSubstr("no address of this host"));
  EXPECT_THAT(complaint_about_network("10.2.0.0/16"), HasSubstr("no address of this host"));
  EXPECT_THAT(complaint_about_network("203.0.113.0/24"),
              HasSubstr("no address of this host that is up"));
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "::/129", "/8",
                           "eth0/24", "10.0.0/8"})
    EXPECT_THAT(complaint_about_network(text), HasSubstr("not a network")) << text;
}

TEST(Network, ThisHostHasALoopback) {
  const auto addresses = host_addresses();
  EXPECT_THAT(addresses, ::testing::Contains(::testing::Field(&HostAddress::loopback, true)));
  for (const HostAddress& each : addresses)
    EXPECT_EQ(choose_address(each.text(), addresses).address.text(), each.text());
}

/// An eighth of the descriptors, but 16 in any case.
TEST(Listener, StrangersGetFewOfTheDescriptors) {
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const auto most = [&](rlim_t descriptors, std::size_t wanted) {
    rlimit limit = usual;
    limit.rlim_cur = descriptors;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const std::size_t strangers = most_strangers(wanted);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    return strangers;
  };
  EXPECT_EQ(most(256, 1000), 32U);
  EXPECT_EQ(most(256, 10), 10U);
  EXPECT_EQ(most(64, 1000), 16U);
}

/// An interruption is what a call says that failed, not what an earlier one has left behind.
TEST(Socket, TheEndOfAConnectionIsNoInterruption) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const FileDescriptor reader{ends[0]};
  FileDescriptor{ends[1]}.reset();
  std::array<std::byte, 8> room{};
  errno = EINTR;
  EXPECT_EQ(receive_some(reader, room), 0);
}

}  // namespace
}  // namespace capstan
