// SPDX-License-Identifier: Apache-2.0

// Files that describe clusters: what `capstan simulate` and `capstan explain` read from them, and
// what they say of bad ones.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwloc.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A host of GPUs as NCCL writes it. `links` stand in each GPU.
std::string nccl_host(int gpus, const std::string& links, const std::string& nets) {
  std::string text = "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"x86_64\">\n";
  for (int gpu = 0; gpu < gpus; ++gpu)
    text += fmt::format(
        "    <pci busid=\"0000:{}7:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
        "link_width=\"16\">\n      <gpu dev=\"{}\" sm=\"80\" rank=\"{}\" gdr=\"1\">{}</gpu>\n"
        "    </pci>\n",
        gpu, gpu, gpu, links);
  return text + "    <nic>" + nets + "</nic>\n  </cpu>\n</system>\n";
}

std::string net(int number, int speed) {
  return fmt::format("<net name=\"mlx5_{}\" dev=\"{}\" speed=\"{}\" port=\"1\" gdr=\"1\"/>", number,
                     number, speed);
}

/// The output of a simulation on a file about its hosts and the network, or the error instead.
std::string told(const Folder& folder, const std::string& text, int ranks = 16) {
  std::ofstream{folder / "file"} << text;
  return folder
      .run(fmt::format("capstan simulate barrier -n {} -a dissemination --topology file 2>&1",
                       ranks))
      .output;
}

TEST(TopologyFile, HostsAsNcclWritesThem) {
  const Folder folder;
  const std::string links =
      R"(<nvlink target="0000:a0:00.0" count="8"/><nvlink target="0000:a1:00.0" count="4"/>)";
  EXPECT_THAT(told(folder, nccl_host(2, links, net(0, 400000) + net(1, 400000))),
              AllOf(HasSubstr("on 16 ranks and 8 hosts\n"),
                    HasSubstr("hosts:     hosts of 2 GPUs, 300 GB/s between them by nvlink; "
                              "2 network ports of 50 GB/s\n"),
                    HasSubstr("network:   2 rails of 16 ports")));
  EXPECT_THAT(told(folder, nccl_host(4, links, net(0, 100000) + net(1, 1000))),
              AllOf(HasSubstr("; 1 network port of 12.5 GB/s\n"),
                    HasSubstr("network:   fat tree of 4 ports")));
  EXPECT_THAT(told(folder, nccl_host(4, "", "")),
              HasSubstr("hosts of 4 GPUs, 31.51 GB/s between them by pci; 0 network ports\n"));
  EXPECT_THAT(told(folder, nccl_host(4, R"(<xgmi target="0000:a0:00.0" count="3"/>)", "")),
              HasSubstr("150 GB/s between them by xgmi"));
  // Ranks that fill no whole host, and one host.
  EXPECT_THAT(told(folder, nccl_host(4, "", net(0, 100000)), 6), HasSubstr("6 ranks and 2 hosts"));
  EXPECT_THAT(told(folder, nccl_host(4, "", net(0, 100000)), 3), HasSubstr("3 ranks and 1 host\n"));
}

/// A machine as hwloc itself writes it.
std::string hwloc_machine(const char* synthetic) {
  hwloc_topology_t topology = nullptr;
  char* text = nullptr;
  int length = 0;
  EXPECT_EQ(hwloc_topology_init(&topology), 0);
  EXPECT_EQ(hwloc_topology_set_synthetic(topology, synthetic), 0);
  EXPECT_EQ(hwloc_topology_load(topology), 0);
  EXPECT_EQ(hwloc_topology_export_xmlbuffer(topology, &text, &length, 0), 0);
  std::string xml{text};
  hwloc_free_xmlbuffer(topology, text);
  hwloc_topology_destroy(topology);
  return xml;
}

TEST(TopologyFile, MachinesAsHwlocWritesThem) {
  const Folder folder;
  EXPECT_THAT(
      told(folder, hwloc_machine("package:2 numa:1 l3:1 core:4 pu:2")),
      AllOf(HasSubstr("on 16 ranks and 2 hosts\n"), HasSubstr("hosts like file: 8 cores\n")));
  std::string wide{"\xff\xfe"};  // an editor has saved it as UTF-16
  for (const char letter : hwloc_machine("package:2 numa:1 l3:1 core:4 pu:2"))
    wide.append({letter, '\0'});
  EXPECT_THAT(told(folder, wide), HasSubstr("hosts like file: 8 cores\n"));
  told(folder, hwloc_machine("package:2 numa:1 l3:1 core:4 pu:2"));
  // A pipe is read once.
  EXPECT_THAT(folder.run("cat file | capstan simulate barrier -n 32 --topology /dev/stdin").output,
              HasSubstr("on 32 ranks and 4 hosts\n"));
  // Cores that may not be used, as on a machine whose hypervisor keeps some; units without cores.
  const auto machine = [&](const std::string& allowed, const std::string& objects) {
    return told(folder, "<topology version=\"2.0\">\n<object type=\"Machine\" allowed_cpuset=\"" +
                            allowed + "\">\n" + objects + "</object></topology>");
  };
  std::string units, cores;
  for (int unit = 0; unit < 40; ++unit) {
    units += fmt::format("<object type=\"PU\" os_index=\"{}\"/>", unit);
    cores +=
        fmt::format("<object type=\"Core\"><object type=\"PU\" os_index=\"{}\"/></object>", unit);
  }
  EXPECT_THAT(machine("0x00000081,0x0000000f", units), HasSubstr("hosts like file: 6 cores"));
  EXPECT_THAT(
      machine("0x00000080,,0x00000003", cores + "<info name=\"CPUModel\" value=\"Paper\"/>"),
      HasSubstr("hosts like Paper: 2 cores"));
  EXPECT_THAT(machine("0xf...f,0x0000000f", cores), HasSubstr("hosts like file: 12 cores"));
  EXPECT_THAT(machine("0xf...f", cores), HasSubstr("hosts like file: 40 cores")) << "all units";
}

TEST(TopologyFile, ClustersAndOptionsThatComeBeforeThem) {
  const Folder folder;
  const std::string text = R"({"format": "capstan-topology", "version": 1, "name": "two racks",
  "host": {"ranks": 4, "memory": {"latency": 100, "bandwidth": 20}},
  "network": {"kind": "torus", "dims": [4, 2], "bandwidth": 12.5},
  "costs": {"send": 1000, "receive": 0}})";
  EXPECT_THAT(told(folder, text, 32), HasSubstr("hosts:     two racks\nnetwork:   torus of 8 "
                                                "ports: 4 x 2\n"));
  const auto with = [&](const std::string& options) {
    return folder.run("capstan simulate barrier -n 32 --topology file -a dissemination " + options)
        .output;
  };
  EXPECT_THAT(with("--fabric flat"), HasSubstr("network:   one switch that never blocks, 8 ports"));
  EXPECT_THAT(with("--ranks-per-host 16 --fabric flat"), HasSubstr("on 32 ranks and 2 hosts"));
  EXPECT_NE(with(""), with("--costs send=100"));
  // The network says where it stands.
  EXPECT_THAT(told(folder, text, 64),
              HasSubstr("file:3:14: a torus of 4x2 has 8 ports, and 16 are needed"));
}

TEST(TopologyFile, BadClustersNameThePlace) {
  const Folder folder;
  const auto message = [&](const std::string& text) { return told(folder, text); };
  const auto rest = [&](const std::string& text) {
    return told(folder, "{\"format\": \"capstan-topology\", \"version\": 1,\n " + text + "}");
  };
  EXPECT_THAT(message(""), HasSubstr("file:1:1: the file is empty: write one as docs/"));
  EXPECT_THAT(message("[]"), HasSubstr("file:1:1: /: expected an object"));
  EXPECT_THAT(message("{\"format\": \"capstan-topology\",\n"),
              AllOf(HasSubstr("file:2:"), HasSubstr("this is no JSON"), HasSubstr("schema.json")));
  EXPECT_THAT(message("{\"format\": \"capstan-topology\",\n \"version\": 2}"),
              HasSubstr("file:2:14: /version: expected \"version\": 1"));
  EXPECT_THAT(rest("\"costs\": {\"send\": 1,\n \"send\": 2}"),
              HasSubstr("file:3:2: the key 'send' stands a second time in one object, after 2:12"));
  EXPECT_THAT(rest("\"hosts\": {}"),
              AllOf(HasSubstr("file:2:"), HasSubstr("'hosts' is not known")));
  EXPECT_THAT(rest("\"a~b/c\": 1"), HasSubstr("'a~b/c' is not known"));
  EXPECT_THAT(rest("\"name\": 4"), HasSubstr("file:2:11: /name: expected a text"));
  EXPECT_THAT(rest("\"host\": 4"), HasSubstr("file:2:11: /host: expected an object"));
  for (const char* ranks : {"0", "-1", "1.5", "\"4\"", "1048577", "1e30", "[4]"})
    EXPECT_THAT(rest(fmt::format("\"host\": {{\"ranks\": {}}}", ranks)),
                HasSubstr("/host/ranks: expected a whole number from 1 to 1048576"));
  EXPECT_THAT(rest("\"host\": {\"ranks\": 4, \"ports\": 3}"),
              HasSubstr("one for each of its ranks"));
  for (const char* bandwidth : {"0", "-1", "1e300", "1e-300", "null"})
    EXPECT_THAT(rest(fmt::format("\"host\": {{\"memory\": {{\"bandwidth\": {}}}}}", bandwidth)),
                HasSubstr("/host/memory/bandwidth: expected a number from 1e-09 to 1e+09"));
  EXPECT_THAT(rest("\"host\": {\"memory\": {\"latency\": 1e999}}"),
              HasSubstr("file:2:33: this is no JSON (a number that no double holds): correct it"));
  EXPECT_THAT(rest(R"("name": "\"1e999", "x": 1e999)"), HasSubstr("file:2:26: this is no JSON"))
      << "the same digits in a text";
  EXPECT_THAT(rest("\"network\": {\"kind\": \"clos\"}"),
              HasSubstr("/network/kind: 'clos', column 1: no network is called 'clos': there are"));
  EXPECT_THAT(rest("\"network\": {\"kind\": \"rail\",\n \"radix\": 64.5}"),
              AllOf(HasSubstr("file:3:"), HasSubstr("/network/radix: "),
                    HasSubstr("'64.5' is not a whole number")));
  EXPECT_THAT(rest("\"costs\": {\"sned\": 1}"),
              HasSubstr("/costs/sned: no such cost: there are call, send"));
  for (const char* cost : {"-1", "-1e-300", "1e10", "null"})
    EXPECT_THAT(rest(fmt::format("\"costs\": {{\"send\": {}}}", cost)),
                HasSubstr("/costs/send: expected a number from 0 to 1e+09"));
  // A million levels are read, and refused, at once.
  EXPECT_THAT(rest("\"name\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']')),
              HasSubstr("/name: expected a text"));
  EXPECT_THAT(rest("\"costs\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') +
                   ",\n \"zone\": 1"),
              AllOf(HasSubstr("file:3:"), HasSubstr("'zone' is not known")));
}

TEST(TopologyFile, BadXmlNamesThePlace) {
  const Folder folder;
  const auto message = [&](const std::string& text) { return told(folder, text); };
  const auto system = [&](const std::string& text) {
    return told(folder, "<system version=\"1\">\n  " + text + "\n</system>");
  };
  EXPECT_THAT(system("<cpu>"),
              HasSubstr("file:3:3: not well-formed XML (mismatched tag): write the file anew"));
  const std::string good = nccl_host(2, "", net(0, 400000));
  EXPECT_THAT(message(good.substr(0, good.size() / 2)), HasSubstr("not well-formed XML"));
  EXPECT_THAT(system("<net dev=\"0\"/>"), HasSubstr("file:2:3: a net without 'speed'"));
  for (const char* speed : {"0", "-1", "fast", "nan", "inf", "1e300", "1e-310", ""})
    EXPECT_THAT(system(fmt::format("<net speed=\"{}\"/>", speed)),
                AllOf(HasSubstr("file:2:3: "), HasSubstr("speed")));
  EXPECT_THAT(system("<gpu dev=\"0\"/>"), HasSubstr("file:2:3: a gpu without 'sm'"));
  EXPECT_THAT(system("<gpu dev=\"0\" sm=\"80\"/>\n<nvlink count=\"5e-324\"/>"),
              HasSubstr("file:3:1: count=\"5e-324\" is neither 0 nor a number from 0.001"));
  for (const char* speed : {"1e300", "1e-310"})
    EXPECT_THAT(system(fmt::format("<pci link_speed=\"{} GT/s\" link_width=\"16\"/>", speed)),
                HasSubstr(fmt::format("file:2:3: link_speed=\"{} GT/s\" is not GT/s", speed)));
  EXPECT_THAT(system(""), HasSubstr("file:1:1: describes no GPU"));
  const auto topology = [&](const std::string& text) {
    return told(folder, "<topology version=\"2.0\">\n  " + text + "</topology>");
  };
  EXPECT_THAT(topology(""), HasSubstr("file:1:1: describes no core that can be used"));
  EXPECT_THAT(topology("<object/>"), HasSubstr("file:2:3: an object without 'type'"));
  for (const char* index : {"", "-1", "x", "1048576", "99999999999", "1.5"})
    EXPECT_THAT(topology(fmt::format("<object type=\"PU\" os_index=\"{}\"/>", index)),
                HasSubstr("file:2:3: a PU whose os_index is no number below 1048576"));
  for (const char* set : {"x", "0x", "0x1ffffffff", "3", "0x1;0x2"})
    EXPECT_THAT(topology(fmt::format("<object type=\"Machine\" allowed_cpuset=\"{}\"/>", set)),
                HasSubstr("is no set of processing units"));
  EXPECT_THAT(message("<html/>"), HasSubstr("file:1:1: <html> is neither NCCL's <system>"));
}

TEST(TopologyFile, NoFileTakesAllMemoryOrTime) {
  const Folder folder;
  std::string entities =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE system [\n<!ENTITY a0 \"aaaaaaaaaa\">\n";
  for (int i = 1; i < 20; ++i)
    entities += fmt::format("<!ENTITY a{} \"&a{};&a{};\">\n", i, i - 1, i - 1);
  EXPECT_THAT(told(folder, entities + "]>\n<system>&a19;</system>"),
              HasSubstr("file:3:13: the entity 'a0' is defined"));
  std::string deep, shut;
  for (int i = 0; i < 100'000; ++i) deep += "<object>", shut += "</object>";
  EXPECT_THAT(told(folder, "<topology version=\"2.0\">" + deep + shut + "</topology>"),
              HasSubstr("file:1:537: more than 64 elements within each other"));
  const auto of = [&](const std::string& path) {
    const auto result = folder.run("capstan simulate barrier -n 8 --topology " + path + " 2>&1");
    EXPECT_EQ(result.status, 2);
    return result.output;
  };
  EXPECT_THAT(of("/dev/zero"), HasSubstr("/dev/zero cannot be read: it is a device"));
  folder.run("truncate -s 65M long");
  EXPECT_THAT(of("long"), HasSubstr("long is longer than 64 MiB"));
  EXPECT_THAT(of("."), HasSubstr(". cannot be read: it is a folder"));
  EXPECT_THAT(of("missing"), HasSubstr("missing cannot be read: No such file"));
  EXPECT_THAT(of("file/below"), HasSubstr("file/below cannot be read: Not a directory"));
}

TEST(TopologyFile, ExplainSimulatesWhatCanStillWin) {
  const Folder folder;
  std::ofstream{folder / "host.xml"} << nccl_host(8, "", net(0, 200000));
  const auto result = folder.run(
      "capstan explain all_reduce --bytes 1M --topology host.xml --ranks 4096 --json 2>&1");
  ASSERT_EQ(result.status, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_THAT(json["own_choice"].get<std::string>(), HasSubstr("/"));
  double best = 0;
  int marked = 0;
  for (const auto& candidate : json["candidates"]) {
    if (candidate["verdict"] == "the fastest") best = candidate["time"];
    if (candidate["verdict"] != "not simulated: it takes at least as long") continue;
    EXPECT_TRUE(candidate["time"].is_null());
    EXPECT_GE(candidate["at_least"].get<double>(), best) << candidate;
    ++marked;
  }
  EXPECT_GT(best, 0);
  EXPECT_GT(marked, 0);
}

TEST(TopologyFile, ExplainRefusesWhatIsNotForClusters) {
  const Folder folder;
  const auto message = [&](const std::string& options) {
    const auto result = folder.run("capstan explain all_reduce " + options + " 2>&1");
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(message("--topology file"), HasSubstr("need --ranks: how many, from 2 on"));
  EXPECT_THAT(message("--fabric flat -n 8 --rules ring"), HasSubstr("--rules: not with"));
  EXPECT_THAT(message("--fabric flat -n 8 --schedule 0"), HasSubstr("--schedule: not with"));
  EXPECT_THAT(message("-n 4096"), HasSubstr("--topology or --fabric describe a cluster for more"));
}

TEST(Explain, AFileThatCannotBeWrittenIsFoundBeforeAnythingIsSaid) {
  for (const char* option : {"--svg", "--chart"}) {
    const auto result = run_command({CAPSTAN_PROGRAM, "explain", "all_reduce", "--bytes", "1K",
                                     "-n", "2", option, "/proc/no/such/folder/picture"});
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("cannot write '/proc/no/such/folder/picture'"));
    EXPECT_THAT(result.output, ::testing::Not(HasSubstr("chosen:")));
  }
}

/// The names that a message ends with: "there are x, y".
std::set<std::string> known_in(const std::string& message) {
  const std::string_view before = "there are ";
  const std::size_t at = message.rfind(before);
  if (at == std::string::npos) return {message};
  std::istringstream words{message.substr(at + before.size())};
  std::set<std::string> names;
  for (std::string word; words >> word;) names.insert(word.substr(0, word.find(',')));
  return names;
}

std::set<std::string> members_of(const nlohmann::json& schema) {
  std::set<std::string> names;
  for (const auto& [name, member] : schema["properties"].items()) names.insert(name);
  return names;
}

class TopologySchema : public ::testing::Test {
 protected:
  std::string told_of(const std::string& rest) const {
    return told(folder_, "{\"format\": \"capstan-topology\", \"version\": 1, " + rest + "}");
  }

  const nlohmann::json schema_ =
      nlohmann::json::parse(std::ifstream{DOCUMENTS "/topology-file.schema.json"});
  const nlohmann::json& host_ = schema_["properties"]["host"];
  const nlohmann::json& network_ = schema_["properties"]["network"];
  const nlohmann::json& costs_ = schema_["properties"]["costs"];
  const Folder folder_;
};

/// The reader and the schema know the same names.
TEST_F(TopologySchema, HasTheNamesThatAreRead) {
  EXPECT_EQ(known_in(told_of("\"x\": 1")), members_of(schema_));
  EXPECT_EQ(known_in(told_of("\"host\": {\"x\": 1}")), members_of(host_));
  EXPECT_EQ(known_in(told_of("\"host\": {\"memory\": {\"x\": 1}}")),
            members_of(host_["properties"]["memory"]));
  auto properties = known_in(told_of("\"network\": {\"kind\": \"flat\", \"x\": 1}"));
  properties.insert("kind");
  EXPECT_EQ(properties, members_of(network_));
  EXPECT_EQ(known_in(told_of("\"network\": {\"kind\": \"x\"}")),
            network_["properties"]["kind"]["enum"].get<std::set<std::string>>());
  EXPECT_EQ(known_in(told_of("\"costs\": {\"x\": 1}")),
            costs_["propertyNames"]["enum"].get<std::set<std::string>>());
}

/// Values at the ends of the schema's ranges are read, and values beyond them are refused.
TEST_F(TopologySchema, HasTheRangesThatAreRead) {
  const auto expect = [&](const std::string& text, const nlohmann::json& value, double factor,
                          bool read) {
    const double number = value.get<double>() * factor;
    EXPECT_EQ(told_of(fmt::format(fmt::runtime(text), number)).starts_with("barrier"), read)
        << fmt::format(fmt::runtime(text), number);
  };
  const auto expect_range = [&](const std::string& text, const nlohmann::json& range) {
    for (const char* end : {"minimum", "maximum"}) expect(text, range.at(end), 1, true);
    expect(text, range["maximum"], 2, false);
    if (range["minimum"] > 0) expect(text, range["minimum"], 0.5, false);
  };
  const std::string cost = "\"costs\": {{\"send\": {}}}";
  expect_range(cost, costs_["additionalProperties"]);
  expect(cost, 1e-12, 1, true);
  for (const auto& [name, property] : network_["properties"].items()) {
    if (name == "kind" || name == "dims") continue;
    const std::string text = "\"network\": {{\"kind\": \"flat\", \"" + name + "\": {}}}";
    expect_range(text, property);
    expect(text, 2.5, 1, property["type"] == "number");
  }
  for (const auto& [name, property] : host_["properties"]["memory"]["properties"].items())
    if (property["type"] == "number")
      expect_range("\"host\": {{\"memory\": {{\"" + name + "\": {}}}}}", property);
}

}  // namespace
}  // namespace capstan
