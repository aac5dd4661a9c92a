// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "capstan/error.hpp"
#include "core/profiles/json_position.hpp"
#include "core/schedule/interchange/json_node.hpp"
#include "core/tools/cli/topology/topology_file.hpp"

namespace capstan::cli {
namespace {

constexpr int most_count = 1 << 20;

class ClusterReader {
 public:
  ClusterReader(const std::string& text, const std::string& path)
      : text_(text),
        path_(path),
        root_(JsonNode::parse(text, path, "correct it, as docs/topology-file.schema.json says")) {}

  TopologyFile read() {
    allow("", {"format", "version", "name", "machine", "host", "network", "costs"});
    if (!root_.contains("format") || root_["format"] != "capstan-topology")
      refuse("/format", "expected \"format\": \"capstan-topology\"");
    if (!root_.contains("version") || root_["version"] != 1)
      refuse("/version", "expected \"version\": 1, which is what this version of Capstan reads");
    const auto name = text("/name"), machine = text("/machine");
    file_.summary = name.value_or("a cluster of " + path_);
    if (root_.contains("host")) read_host();
    if (root_.contains("network")) read_network();
    if (root_.contains("costs")) read_costs();
    return file_;
  }

 private:
  void read_host() {
    allow("/host", {"ranks", "ports", "memory"});
    const auto& host = root_["host"];
    if (host.contains("ranks")) file_.ranks_per_host = count("/host/ranks", host["ranks"]);
    if (host.contains("ports")) {
      const int ports = count("/host/ports", host["ports"]);
      if (ports != 1 && ports != file_.ranks_per_host)
        refuse("/host/ports", "a host has one port, or one for each of its ranks");
      file_.ranks_have_ports = ports == file_.ranks_per_host && ports > 1;
    }
    if (host.contains("memory")) read_memory(host["memory"]);
  }

  void read_memory(const nlohmann::json& memory) {
    allow("/host/memory", {"name", "latency", "bandwidth"});
    if (const auto name = text("/host/memory/name")) file_.memory.name = *name;
    if (memory.contains("latency"))
      file_.memory.latency = real("/host/memory/latency", memory["latency"]);
    if (memory.contains("bandwidth"))
      file_.memory.byte = 1 / real("/host/memory/bandwidth", memory["bandwidth"]);
  }

  /// The properties have the names of --fabric, so that one reader knows them.
  void read_network() {
    const auto& network = root_["network"];
    if (!network.is_object() || !network.contains("kind") || !network["kind"].is_string())
      refuse("/network", fmt::format("expected an object with a \"kind\", one of {}",
                                     fmt::join(fabric_kinds(), ", ")));
    const std::string kind = network["kind"];
    fabric("/network/kind", kind);
    std::string properties;
    for (const auto& [key, value] : network.items()) {
      if (key == "kind") continue;
      const std::string pointer = "/network/" + key, one = key + "=" + property(pointer, value);
      fabric(pointer, kind + ":" + one);
      properties += (properties.empty() ? ":" : ",") + one;
    }
    file_.network = fabric("/network", kind + properties);
    file_.network_place = fmt::format("{}:{}", path_, position_of(text_, "/network"));
  }

  FabricSpec fabric(const std::string& pointer, const std::string& spec) const try {
    return parse_fabric(spec);
  } catch (const InvalidArgument& error) {
    refuse(pointer, error.what());
  }

  std::string property(const std::string& pointer, const nlohmann::json& value) const {
    if (!value.is_array()) return fmt::format("{}", real(pointer, value));
    std::vector<int> sizes;
    for (const auto& size : value) sizes.push_back(count(pointer, size));
    return fmt::format("{}", fmt::join(sizes, "x"));
  }

  void read_costs() {
    const auto& costs = root_["costs"];
    if (!costs.is_object())
      refuse("/costs", "expected an object of numbers, such as {\"send\": 400}");
    for (const auto& [key, value] : costs.items()) {
      double* const cost = cost_named(file_.costs, key);
      if (!cost) refuse("/costs/" + key, fmt::format("no such cost: there are {}", cost_names()));
      *cost = real("/costs/" + key, value, 0);
    }
  }

  int count(const std::string& pointer, const nlohmann::json& value) const {
    if (!value.is_number_unsigned() || value < 1 || value > most_count)
      refuse(pointer, fmt::format("expected a whole number from 1 to {}", most_count));
    return value;
  }

  double real(const std::string& pointer, const nlohmann::json& value,
              double least = least_property) const {
    if (!value.is_number() || value < least || value > most_property)
      refuse(pointer, fmt::format("expected a number from {:g} to {:g}", least, most_property));
    return value;
  }

  /// A member that may be missing.
  std::optional<std::string> text(const std::string& pointer) const {
    const nlohmann::json::json_pointer place{pointer};
    if (!root_.contains(place)) return std::nullopt;
    if (!root_[place].is_string()) refuse(pointer, "expected a text");
    return root_[place].get<std::string>();
  }

  void allow(const std::string& pointer, std::initializer_list<std::string_view> names) const {
    const auto& value = root_.at(nlohmann::json::json_pointer{pointer});
    if (!value.is_object()) refuse(pointer, "expected an object");
    for (const auto& [key, member] : value.items())
      if (std::ranges::find(names, key) == names.end())
        refuse(pointer + "/" + key,
               fmt::format("'{}' is not known here: there are {}", key, fmt::join(names, ", ")));
  }

  [[noreturn]] void refuse(const std::string& pointer, std::string_view what) const {
    throw InvalidArgument(fmt::format("{}:{}: {}: {}", path_, position_of(text_, pointer),
                                      pointer.empty() ? "/" : pointer, what));
  }

  const std::string& text_;
  const std::string& path_;
  const nlohmann::json root_;
  TopologyFile file_;
};

}  // namespace

TopologyFile read_cluster_json(const std::string& text, const std::string& path) {
  return ClusterReader{text, path}.read();
}

}  // namespace capstan::cli
