// SPDX-License-Identifier: Apache-2.0

// The hosts that `capstan run --hosts` reads, and its messages to its daemons.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "capstan/error.hpp"
#include "core/tools/launcher/host_list.hpp"
#include "core/tools/launcher/host_protocol.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Hosts = std::vector<HostSlots>;

template <class Action>
std::string complaint_about_hosts(Action action) {
  try {
    action();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(HostList, ReadsHostsInTheOrderOfRanks) {
  EXPECT_EQ(parse_hosts("a:2,b"), (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(parse_hosts("me@node-1.example:16"), (Hosts{{"me@node-1.example", 16}}));
  EXPECT_EQ(parse_hosts("192.0.2.1:3,[fd00::2]:4,[fe80::1%eth0]"),
            (Hosts{{"192.0.2.1", 3}, {"fd00::2", 4}, {"fe80::1%eth0", 1}}));
  EXPECT_EQ(parse_hosts("a:2,b:1,a:3"), (Hosts{{"a", 5}, {"b", 1}})) << "one daemon per host";
}

TEST(HostList, WritesWhatItReads) {
  const Hosts hosts{{"a", 2}, {"me@b", 1}, {"fd00::2", 4}};
  EXPECT_EQ(to_string(hosts), "a:2,me@b:1,[fd00::2]:4");
  EXPECT_EQ(parse_hosts(to_string(hosts)), hosts);
  EXPECT_EQ(ranks_on(hosts), 7);
}

TEST(HostList, TeachesWhatIsWrong) {
  const auto refused = [](const char* text) {
    return complaint_about_hosts([&] { parse_hosts(text); });
  };
  EXPECT_THAT(refused(""), HasSubstr("name is missing"));
  EXPECT_THAT(refused("a,,b"), HasSubstr("name is missing"));
  EXPECT_THAT(refused("a,"), HasSubstr("name is missing"));
  EXPECT_THAT(refused(":2"), HasSubstr("name is missing"));
  EXPECT_THAT(refused("fd00::2:4"), AllOf(HasSubstr("brackets"), HasSubstr("\"fd00::2:4\"")));
  EXPECT_THAT(refused("[fd00::2:4"), HasSubstr("not closed"));
  EXPECT_THAT(refused("[fd00::2]4"), HasSubstr("after the bracket"));
  for (const char* text : {"a:0", "a:-1", "a:x", "a:1x", "a:", "a:4097", "a:99999999999"})
    EXPECT_THAT(refused(text), HasSubstr("1 to 4096")) << text;
  for (const char* text : {"-oProxyCommand=x", "a b:2", "a;b", "$(a)", "'a'"})
    EXPECT_THAT(refused(text), HasSubstr("not a host's name")) << text;
}

TEST(HostList, TakesTheFirstPlaces) {
  const Hosts hosts{{"a", 2}, {"b", 3}};
  EXPECT_EQ(first_slots(hosts, 0), hosts);
  EXPECT_EQ(first_slots(hosts, 5), hosts);
  EXPECT_EQ(first_slots(hosts, 4), (Hosts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(first_slots(hosts, 1), (Hosts{{"a", 1}}));
  EXPECT_THAT(complaint_about_hosts([&] { first_slots(hosts, 6); }),
              HasSubstr("places for 5 ranks, not for 6"));
  EXPECT_THAT(complaint_about_hosts([&] { first_slots({{"a", 4000}, {"b", 4000}}, 0); }),
              HasSubstr("4096"));
}

class HostFile : public ::testing::Test {
 protected:
  Hosts read(const std::string& text) {
    std::ofstream{path_} << text;
    return read_hostfile(path_);
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "hosts";
};

TEST_F(HostFile, HasAHostPerLine) {
  EXPECT_EQ(read("# the nodes\na:2\n\n  b slots=3  # the large one\nc\n"),
            (Hosts{{"a", 2}, {"b", 3}, {"c", 1}}));
}

TEST_F(HostFile, TeachesWhatIsWrong) {
  EXPECT_THAT(complaint_about_hosts([&] { read("# nothing\n"); }), HasSubstr("names no host"));
  EXPECT_THAT(complaint_about_hosts([&] { read("a 4\n"); }), HasSubstr("slots=ranks"));
  EXPECT_THAT(complaint_about_hosts([&] { read("a slots=0\n"); }), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint_about_hosts([&] { read("a slots=2 max_slots=4\n"); }),
              HasSubstr("slots=ranks"));
  EXPECT_THAT(complaint_about_hosts([] { read_hostfile("/proc/no/such/file"); }),
              HasSubstr("/proc/no/such/file"));
}

TEST(Agent, GetsTheHostWhereverItSays) {
  EXPECT_THAT(agent_command("ssh  -oBatchMode=yes -- {host}", "a"),
              ElementsAre("ssh", "-oBatchMode=yes", "--", "a"));
  EXPECT_THAT(agent_command("ip netns exec bed-{host}-{host}", "{host}"),
              ElementsAre("ip", "netns", "exec", "bed-{host}-{host}"));
  EXPECT_THAT(complaint_about_hosts([] { agent_command("ssh node1", "a"); }), HasSubstr("{host}"));
}

TEST(HostProtocol, MessagesArriveWholeHoweverTheyAreCut) {
  const std::string bytes{"\0\xff\n[binary]", 12};
  const nlohmann::json first{{"is", "output"}, {"rank", 3}, {"bytes", binary(bytes)}};
  const nlohmann::json second{{"is", "end"}, {"status", 256}};
  const std::string stream = std::string{greeting} + encode(first) + encode(second);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, stream.size()}) {
    HostMessageReader reader{true};
    std::vector<nlohmann::json> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.append(std::string_view{stream}.substr(at, piece));
      while (auto message = reader.next()) got.push_back(std::move(*message));
    }
    EXPECT_THAT(got, ElementsAre(first, second));
    EXPECT_EQ(bytes_of(got.front().at("bytes")), bytes);
  }
}

std::string refusal(const std::string& stream, bool greeted) {
  HostMessageReader reader{greeted};
  reader.append(stream);
  try {
    while (reader.next()) {
    }
  } catch (const NotTheProtocol& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(HostProtocol, AnythingElseIsRefused) {
  EXPECT_EQ(refusal("Welcome to node1\nmore", true), "Welcome to node1");
  EXPECT_EQ(refusal("capstan d", true), "no refusal") << "may still become the greeting";
  EXPECT_THAT(refusal("\xff\xff\xff\xff", false), HasSubstr("bytes"));
  EXPECT_THAT(refusal(std::string{"\1\0\0\0\xff", 5}, false), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(encode(nlohmann::json::array({1, 2})), false), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(encode({{"rank", 1}}), false), HasSubstr("cannot be read"));
  // A parser that recurses would run out of stack, or the destructor of what it has made.
  // An array of one item and endless ones, an endless map, endless bytes and text, a tag.
  for (const char opening : {'\x81', '\x9f', '\xbf', '\x5f', '\x7f', '\xc1'}) {
    std::string deep(1'000'000, opening);
    for (int i = 0; i < 4; ++i)
      deep.insert(deep.begin() + i, static_cast<char>(1'000'000 >> 8 * i));
    EXPECT_THAT(refusal(deep, false), HasSubstr("cannot be read"));
  }
  std::string cut = encode({{"is", "hello"}, {"version", "1"}});
  cut[0] = static_cast<char>(cut[0] - 1);
  EXPECT_THAT(refusal(cut, false), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace capstan::launcher
