// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <utility>

#include "capstan/error.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/json_node.hpp"
#include "core/schedule/interchange/names.hpp"
#include "core/schedule/interchange/step_recorder.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t most_ranks = 1 << 16, most_elements = std::uint64_t{1} << 40,
                        most_phases = 255;

Elements elements_of(const JsonNode& node) {
  return Elements{node.number(most_elements)};
}

Rank rank_of(const JsonNode& node, int ranks) {
  return Rank{static_cast<std::int32_t>(node.number(static_cast<std::uint64_t>(ranks) - 1))};
}

/// ["scratch", 8, 4]: four elements from the eighth on.
Span span_of(const JsonNode& node) {
  constexpr std::array buffers{"input", "output", "scratch"};
  const auto parts = node.elements();
  if (parts.size() != 3)
    node.refuse("a range is [buffer, offset, length], for example [\"input\", 0, 4]");
  const Span span{static_cast<Buffer>(parts[0].one_of(buffers)), elements_of(parts[1]),
                  elements_of(parts[2])};
  if (span.empty()) node.refuse("the range is empty: leave the step out");
  return span;
}

struct ReadStep {
  Step step{};
  std::vector<Span> sources{};
};

ReadStep step_of(const JsonNode& node, int ranks) {
  constexpr std::array verbs{"copy", "reduce", "put", "signal", "wait"};
  ReadStep read{.step = {.verb = static_cast<Verb>(node.at("verb").one_of(verbs))}};
  Step& step = read.step;
  const bool local = step.verb == Verb::copy || step.verb == Verb::reduce;
  if (const auto phase = node.find("phase"))
    step.phase = static_cast<std::uint8_t>(phase->number(most_phases - 1));
  if (step.verb == Verb::signal || step.verb == Verb::wait)
    node.allow({"verb", "peer", "phase"});
  else if (step.verb == Verb::reduce)
    node.allow({"verb", "destination", "sources", "completes", "phase"});
  else if (step.verb == Verb::put)
    node.allow({"verb", "peer", "destination", "sources", "phase"});
  else
    node.allow({"verb", "destination", "sources", "phase"});
  if (!local) step.peer = rank_of(node.at("peer"), ranks);
  if (step.verb == Verb::signal || step.verb == Verb::wait) return read;
  step.destination = span_of(node.at("destination"));
  const JsonNode sources = node.at("sources");
  for (const JsonNode& source : sources.elements()) read.sources.push_back(span_of(source));
  if (step.verb == Verb::reduce ? read.sources.empty() : read.sources.size() != 1)
    sources.refuse(fmt::format("a {} has {} source", name_of(step.verb),
                               step.verb == Verb::reduce ? "at least one" : "one"));
  if (const auto completes = node.find("completes")) step.completes = completes->flag();
  return read;
}

/// Reads a file whose header says what its schedules are for.
class Reader {
 public:
  explicit Reader(const JsonNode& root) : root_(root) {}

  ScheduleSet read() {
    check_header();
    set_.algorithm = root_.at("algorithm").text();
    check_name();
    if (const auto summary = root_.find("summary")) set_.summary = summary->text();
    set_.collective = all_collectives()[root_.at("collective").one_of(names_of_collectives())];
    read_sizes();
    read_promises();
    read_schedules();
    return std::move(set_);
  }

 private:
  static std::vector<std::string_view> names_of_collectives() {
    std::vector<std::string_view> names;
    for (const Collective collective : all_collectives()) names.push_back(name_of(collective));
    return names;
  }

  void check_header() {
    const auto format = root_.find("format");
    if (!format || format->text() != schedule_file_format)
      root_.refuse(fmt::format("this is no schedule file: its member 'format' is not \"{}\"",
                               schedule_file_format));
    const JsonNode version = root_.at("version");
    if (const auto number = version.number(1 << 30); number != schedule_file_version)
      version.refuse(
          fmt::format("version {} cannot be read, only {}: write the file anew with this "
                      "version of `capstan export`",
                      number, schedule_file_version));
    root_.allow({"format", "version", "collective", "algorithm", "summary", "ranks", "hosts",
                 "root", "count", "counts", "scratch", "phases", "guarantees", "traffic",
                 "schedules"});
  }

  /// A name that rules can hold.
  void check_name() {
    if (const std::string why = why_no_name(set_.algorithm); !why.empty())
      root_.at("algorithm").refuse(why);
  }

  void read_sizes() {
    const JsonNode ranks = root_.at("ranks");
    ranks_ = static_cast<int>(ranks.number(most_ranks));
    if (ranks_ < 1) ranks.refuse("there is one rank at least");
    set_.hosts = hosts();
    if (has_root(set_.collective))
      set_.shape.root = rank_of(root_.at("root"), ranks_).value();
    else if (const auto root = root_.find("root"))
      root->refuse(fmt::format("{} has no root: leave it out", name_of(set_.collective)));
    if (has_counts(set_.collective))
      read_counts();
    else
      set_.shape.count = elements_of(root_.at("count"));
    scratch_ = elements_of(root_.at("scratch"));
    const auto phases = root_.find("phases");
    phases_ = phases ? static_cast<int>(phases->number(most_phases)) : 1;
    if (phases_ < 1) phases->refuse("there is one phase at least");
  }

  Hosts hosts() const {
    const auto node = root_.find("hosts");
    if (!node) return ranks_;
    std::vector<int> host_of;
    for (const JsonNode& host : node->elements())
      host_of.push_back(static_cast<int>(host.number(most_ranks)));
    if (std::cmp_not_equal(host_of.size(), ranks_))
      node->refuse(fmt::format("{} hosts are given for {} ranks", host_of.size(), ranks_));
    return Hosts{std::move(host_of)};
  }

  void read_counts() {
    const JsonNode counts = root_.at("counts");
    for (const JsonNode& count : counts.elements()) set_.shape.counts.push_back(elements_of(count));
    const auto p = static_cast<std::size_t>(ranks_);
    const std::size_t wanted = set_.collective == Collective::all_to_all_v ? p * p : p;
    if (set_.shape.counts.size() != wanted)
      counts.refuse(fmt::format("{} has {} counts with {} ranks, not {}", name_of(set_.collective),
                                wanted, ranks_, set_.shape.counts.size()));
  }

  void read_promises() {
    if (const auto node = root_.find("guarantees"))
      for (const JsonNode& guarantee : node->elements()) {
        std::vector<std::string_view> names;
        for (const auto& [name, member] : guarantee_names) names.push_back(name);
        set_.guarantees.*(guarantee_names[guarantee.one_of(names)].second) = true;
      }
    if (const auto traffic = root_.find("traffic"))
      set_.traffic = static_cast<Traffic>(traffic->one_of(traffic_names));
  }

  void read_schedules() {
    const JsonNode list = root_.at("schedules");
    const auto nodes = list.elements();
    if (std::cmp_not_equal(nodes.size(), ranks_))
      list.refuse(
          fmt::format("{} schedules are given for {} ranks: write one for each rank, in the "
                      "order of ranks",
                      nodes.size(), ranks_));
    const Contract contract{set_.collective, set_.shape, ranks_};
    ByRank<Schedule> schedules;
    const Elements largest_output = contract.largest_output();
    for (const JsonNode& node : nodes)
      schedules.push_back(schedule_of(node, contract, Rank{schedules.size()}, largest_output));
    set_.schedules = std::move(schedules);
  }

  Schedule schedule_of(const JsonNode& node, const Contract& contract, Rank self,
                       Elements largest_output) const {
    node.allow({"rank", "input", "output", "steps"});
    if (rank_of(node.at("rank"), ranks_) != self)
      node.at("rank").refuse(
          fmt::format("schedules come in the order of ranks: this is that of rank "
                      "{}",
                      self.value()));
    const auto [input, output] = contract.lengths(self.value());
    const auto length = [&](const char* name, Elements usual) {
      const auto given = node.find(name);
      return given ? elements_of(*given) : usual;
    };
    StepRecorder recorder{set_.hosts,
                          self,
                          {length("input", input), length("output", output), scratch_},
                          largest_output};
    for (const JsonNode& each : node.at("steps").elements()) {
      const ReadStep read = step_of(each, ranks_);
      if (read.step.phase >= phases_)
        each.refuse(
            fmt::format("phase {} exceeds the file's 'phases', {}", read.step.phase, phases_));
      try {
        recorder.record(read.step, read.sources);
      } catch (const InvalidArgument& error) {
        each.refuse(error.what());
      }
    }
    return std::move(recorder).build(phases_);
  }

  const JsonNode& root_;
  ScheduleSet set_;
  int ranks_ = 1, phases_ = 1;
  Elements scratch_{};
};

}  // namespace

ScheduleSet schedule_set_from_json(std::string_view text, std::string_view file) {
  const nlohmann::json json = JsonNode::parse(text, file);
  const JsonNode root{json, file};
  return Reader{root}.read();
}

}  // namespace capstan
