// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/profiles/json_position.hpp"
#include "core/schedule/interchange/json_node.hpp"

namespace capstan {
namespace {

using nlohmann::json;

/// FNV-1a (Fowler, Noll and Vo): the same on all machines and in all builds.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return value;
}

// The most that a profile may say, so that times can be interpolated and written again: sizes that
// `capstan tune` measures, and 11 days.
constexpr std::int64_t most_bytes = std::int64_t{1} << 40, most_parts = 1 << 20;
constexpr double most_microseconds = 1e12, most_spread = 1e6;
/// Factors are written with three digits behind the point.
constexpr double least_factor = 0.001, most_factor = 1000;

/// The texts that say where the cells of a group come from, by their names in a document.
template <class Group>
auto origins(Group& group) {
  return std::array{std::pair{"command", std::ref(group.command)},
                    std::pair{"commit", std::ref(group.commit)},
                    std::pair{"machine", std::ref(group.machine)}};
}

/// Reads the values of a document and names the place of a wrong one.
class ProfileReader {
 public:
  ProfileReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Profile read() const {
    const json document = parsed();
    Profile profile;
    if (const auto format = integer(document, "", "format", 1 << 30); format != Profile::format)
      refuse("/format", fmt::format("format {} is not known, only {}", format, Profile::format));
    profile.version = text(document, "", "version");
    const json& machine = member(document, "", "machine");
    profile.machine = {text(machine, "/machine", "id"), text(machine, "/machine", "description")};
    each(document, "", "groups", [&](const json& group, const std::string& at) {
      profile.groups.push_back(read_group(group, at));
    });
    return profile;
  }

 private:
  [[noreturn]] void refuse(const std::string& pointer, const std::string& what) const {
    throw InvalidArgument(
        fmt::format("{}:{}: {}: {}; correct it, or write the file anew with `capstan tune`", file_,
                    position_of(text_, pointer), pointer.empty() ? "the document" : pointer, what));
  }

  json parsed() const {
    return JsonNode::parse(text_, file_, "correct it, or write the file anew with `capstan tune`");
  }

  const json& member(const json& object, const std::string& at, const char* name) const {
    if (!object.is_object()) refuse(at, "expected an object");
    const auto found = object.find(name);
    if (found == object.end()) refuse(at, fmt::format("'{}' is missing", name));
    return *found;
  }
  std::string text(const json& object, const std::string& at, const char* name) const {
    const json& value = member(object, at, name);
    if (!value.is_string()) refuse(fmt::format("{}/{}", at, name), "expected a text");
    return value.get<std::string>();
  }
  bool flag(const json& object, const std::string& at, const char* name) const {
    const json& value = member(object, at, name);
    if (!value.is_boolean()) refuse(fmt::format("{}/{}", at, name), "expected true or false");
    return value.get<bool>();
  }
  std::int64_t integer(const json& object, const std::string& at, const char* name,
                       std::int64_t most) const {
    const json& value = member(object, at, name);
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
        value.get<std::int64_t>() > most)
      refuse(fmt::format("{}/{}", at, name),
             fmt::format("expected a whole number from 0 to {}", most));
    return value.get<std::int64_t>();
  }
  double number(const json& object, const std::string& at, const char* name, double most,
                double least = 0) const {
    const json& value = member(object, at, name);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      refuse(fmt::format("{}/{}", at, name),
             fmt::format("expected a number from {} to {}", least, most));
    return value.get<double>();
  }
  template <class Read>
  void each(const json& object, const std::string& at, const char* name, Read read) const {
    const json& list = member(object, at, name);
    if (!list.is_array()) refuse(fmt::format("{}/{}", at, name), "expected a list");
    for (std::size_t i = 0; i < list.size(); ++i)
      read(list[i], fmt::format("{}/{}/{}", at, name, i));
  }

  int count(const json& object, const std::string& at, const char* name) const {
    constexpr std::int64_t most = 1 << 20;
    const std::int64_t value = integer(object, at, name, std::numeric_limits<std::int64_t>::max());
    if (value < 1 || value > most)
      refuse(fmt::format("{}/{}", at, name), fmt::format("expected a number from 1 to {}", most));
    return static_cast<int>(value);
  }

  MeasuredGroup read_group(const json& object, const std::string& at) const {
    MeasuredGroup group;
    group.ranks = count(object, at, "ranks");
    group.hosts = count(object, at, "hosts");
    if (group.hosts > group.ranks) refuse(at + "/hosts", "expected no more hosts than ranks");
    group.network = text(object, at, "network");
    group.date = text(object, at, "date");
    group.under_load = text(object, at, "under_load");
    for (const auto& [name, member] : origins(group))
      if (object.contains(name)) member.get() = text(object, at, name);
    if (object.contains("device_link")) group.devices = read_device_link(object, at);
    if (object.contains("model")) group.model = read_scale(object["model"], at + "/model");
    each(object, at, "cells", [&](const json& cell, const std::string& place) {
      group.cells.push_back(read_cell(cell, place, group));
    });
    return group;
  }

  DeviceLink read_device_link(const json& object, const std::string& at) const {
    const auto link = device_link_named(text(object, at, "device_link"));
    if (!link) refuse(at + "/device_link", "expected memory, direct or bus");
    return *link;
  }

  ModelScale read_scale(const json& object, const std::string& at) const {
    if (!object.is_object()) refuse(at, "expected an object");
    ModelScale scale;
    for (const auto& [name, value] : object.items()) {
      const auto& known = model_factors();
      const auto found = std::ranges::find(known, name, &ModelFactor::name);
      if (found == known.end()) refuse(at + "/" + name, "the model has no such factor");
      scale.factors[static_cast<std::size_t>(found - known.begin())] =
          number(object, at, name.c_str(), most_factor, least_factor);
    }
    return scale;
  }

  MeasuredCell read_cell(const json& object, const std::string& at,
                         const MeasuredGroup& group) const {
    const auto collective = collective_named(text(object, at, "collective"));
    if (!collective) refuse(at + "/collective", "there is no such collective");
    MeasuredCell cell{*collective, group.ranks, group.hosts,
                      Bytes{static_cast<std::uint64_t>(integer(object, at, "bytes", most_bytes))},
                      number(object, at, "confidence", 1)};
    if (object.contains("disturbed")) cell.disturbed = flag(object, at, "disturbed");
    each(object, at, "ways", [&](const json& way, const std::string& place) {
      cell.ways.push_back(read_way(way, place, *collective));
    });
    return cell;
  }

  MeasuredWay read_way(const json& object, const std::string& at, Collective collective) const {
    const std::string name = text(object, at, "algorithm");
    const auto protocol = protocol_named(text(object, at, "protocol"));
    if (!protocol) refuse(at + "/protocol", "there is no such protocol");
    const auto known = algorithms(collective);
    const auto algorithm = std::ranges::find(known, name, &Algorithm::name);
    if (algorithm == known.end())
      refuse(at + "/algorithm", fmt::format("{} has no algorithm '{}'", name_of(collective), name));
    return {&*algorithm, *protocol,
            std::max<std::uint64_t>(1, static_cast<std::uint64_t>(integer(
                                           object, at, "times_shorter_blocks", most_parts))),
            std::round(number(object, at, "microseconds", most_microseconds) * 1000),
            number(object, at, "spread", most_spread)};
  }

  const std::string_view text_;
  const std::string& file_;
};

json to_json(const MeasuredCell& cell) {
  json ways = json::array();
  for (const MeasuredWay& way : cell.ways)
    ways.push_back({{"algorithm", way.algorithm->name},
                    {"protocol", word_for(way.protocol)},
                    {"times_shorter_blocks", way.times_shorter},
                    {"microseconds", std::round(way.nanoseconds) / 1000},
                    {"spread", std::round(way.spread * 1000) / 1000}});
  return {{"collective", name_of(cell.collective)},
          {"bytes", cell.bytes.value()},
          {"confidence", std::round(cell.confidence * 1000) / 1000},
          {"disturbed", cell.disturbed},
          {"ways", std::move(ways)}};
}

json to_json(const ModelScale& scale) {
  json factors = json::object();
  for (std::size_t i = 0; i < model_factor_count; ++i)
    factors[std::string{model_factors()[i].name}] = std::round(scale.factors[i] * 1000) / 1000;
  return factors;
}

json to_json(const MeasuredGroup& group) {
  json cells = json::array();
  for (const MeasuredCell& cell : group.cells) cells.push_back(to_json(cell));
  json object{{"ranks", group.ranks},           {"hosts", group.hosts},
              {"network", group.network},       {"date", group.date},
              {"under_load", group.under_load}, {"cells", std::move(cells)}};
  for (const auto& [name, text] : origins(group)) object[name] = text.get();
  if (group.devices) object["device_link"] = word_for(*group.devices);
  if (group.model) object["model"] = to_json(*group.model);
  return object;
}

bool counts_for(const MeasuredGroup& group, const std::string& network,
                std::optional<DeviceLink> devices) {
  return group.devices == devices && (group.hosts == 1 || group.network == network);
}

}  // namespace

Fingerprint Fingerprint::of(const Machine& machine) {
  std::string text =
      fmt::format("{}, packages {}, cores {}, L1 {}, L2 {}, L3 {}",
                  machine.name().empty() ? "unknown processor" : machine.name(),
                  1 + std::ranges::max(machine.every_core(), {}, &Core::package).package,
                  machine.every_core().size(), machine.l1d().value(), machine.l2().value(),
                  machine.l3().value());
  return {fmt::format("{:016x}", hash(text)), text};
}

const MeasuredCell* MeasuredGroup::find(Collective collective, Bytes bytes) const {
  const auto found = std::ranges::find_if(cells, [&](const MeasuredCell& cell) {
    return cell.collective == collective && cell.bytes == bytes;
  });
  return found == cells.end() ? nullptr : &*found;
}

bool MeasuredGroup::put(MeasuredCell cell) {
  if (const MeasuredCell* const known = find(cell.collective, cell.bytes)) {
    if (known->decides() && !cell.decides()) return false;
    cells.erase(cells.begin() + (known - cells.data()));
  }
  cells.push_back(std::move(cell));
  return true;
}

std::string name_of(const MeasuredGroup& group) {
  std::string name = fmt::format("{} ranks on {} host{}", group.ranks, group.hosts,
                                 group.hosts == 1 ? "" : "s over " + group.network);
  if (group.devices == DeviceLink::memory) return name + ", in memory of one device";
  if (group.devices) name += fmt::format(", in memory of devices over {}", name_of(*group.devices));
  return name;
}

MeasuredGroup& Profile::group(int ranks, int hosts, const std::string& network,
                              std::optional<DeviceLink> devices) {
  MeasuredGroup wanted{.ranks = ranks, .hosts = hosts, .network = network};
  wanted.devices = devices;
  const auto found =
      std::ranges::find_if(groups, [&](const MeasuredGroup& each) { return each.is_like(wanted); });
  return found != groups.end() ? *found : groups.emplace_back(std::move(wanted));
}

Profile parse_profile(std::string_view text, const std::string& file) {
  return ProfileReader{text, file}.read();
}

std::string to_json(const Profile& profile) {
  json groups = json::array();
  for (const MeasuredGroup& group : profile.groups) groups.push_back(to_json(group));
  const json document{
      {"format", Profile::format},
      {"version", profile.version},
      {"machine", {{"id", profile.machine.id}, {"description", profile.machine.description}}},
      {"groups", std::move(groups)}};
  return document.dump(1) + "\n";
}

MeasuredTimes measured_times(const Profile& profile, const std::string& network,
                             const std::string& file, std::optional<DeviceLink> devices) {
  std::string date;
  for (const MeasuredGroup& group : profile.groups) date = std::max(date, group.date);
  MeasuredTimes times{fmt::format("the profile {} of {}", file, date.substr(0, 10))};
  for (const MeasuredGroup& group : profile.groups)
    if (counts_for(group, network, devices))
      for (const MeasuredCell& cell : group.cells) times.add(cell);
  return times;
}

ModelScales model_scales(const Profile& profile, const std::string& network,
                         std::optional<DeviceLink> devices) {
  ModelScales scales;
  for (const MeasuredGroup& group : profile.groups)
    if (group.model && counts_for(group, network, devices))
      scales.add(group.ranks, group.hosts == 1, *group.model);
  return scales;
}

std::string mismatch(const Profile& profile, const Fingerprint& machine) {
  if (profile.version != version())
    return fmt::format("version {} of Capstan wrote it, and this is {}: tune again",
                       profile.version, version());
  if (profile.machine.id != machine.id)
    return fmt::format("it is of another machine ({}; this one: {}): tune on this machine",
                       profile.machine.description, machine.description);
  return "";
}

}  // namespace capstan
