// SPDX-License-Identifier: Apache-2.0
#include "capstan/observe/exports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/extras/observe/times.hpp"

namespace capstan {
namespace {

using Json = nlohmann::ordered_json;
constexpr auto replace = nlohmann::json::error_handler_t::replace;  // names need not be UTF-8

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, replace);
}

/// Names of processes and threads in a trace.
Json naming(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// The numbers of tags, which are the threads of a trace.
class Threads {
 public:
  explicit Threads(std::span<const OperationProfile> profiles) {
    for (const OperationProfile& each : profiles) numbers_.try_emplace({each.rank, each.tag});
    int next = 0;
    for (auto& [key, number] : numbers_) number = next++;
  }
  template <class Profile>
  int of(const Profile& each) const {
    const auto found = numbers_.find({each.rank, each.tag});
    return found == numbers_.end() ? 0 : found->second;
  }
  void name_all(Json& events) const {
    for (const auto& [key, number] : numbers_) {
      const auto& [rank, tag] = key;
      events.push_back(naming("process_name", rank, number,
                              rank < 0 ? "this process" : fmt::format("rank {}", rank)));
      events.push_back(naming("thread_name", rank, number, tag.empty() ? "operations" : tag));
    }
  }

 private:
  std::map<std::pair<int, std::string>, int> numbers_;
};

Json event_of(const StepProfile& step, std::chrono::system_clock::time_point origin,
              const Threads& threads) {
  Json args{{"block", step.block}, {"step", step.number}};
  if (step.peer >= 0) args["peer"] = step.peer;
  if (step.bytes > Bytes{0}) args["bytes"] = step.bytes.value();
  return {{"ph", "X"},
          {"name", step.step},
          {"cat", "step"},
          {"ts", microseconds(step.began - origin)},
          {"dur", microseconds(step.duration)},
          {"pid", step.rank},
          {"tid", threads.of(step)},
          {"args", std::move(args)}};
}

/// `"` and line ends are escaped, as the format asks.
std::string label(const std::string& value) {
  std::string escaped;
  for (const char letter : value)
    escaped += letter == '\\'   ? "\\\\"
               : letter == '"'  ? "\\\""
               : letter == '\n' ? "\\n"
                                : std::string(1, letter);
  return escaped;
}

}  // namespace

std::string to_json_lines(std::span<const OperationProfile> profiles) {
  std::string lines;
  for (const OperationProfile& each : profiles)
    lines += dump({{"operation", each.operation},
                   {"algorithm", each.algorithm},
                   {"tag", each.tag},
                   {"bytes", each.bytes.value()},
                   {"duration_ns", each.duration.count()},
                   {"bandwidth_mib_per_s", each.bandwidth},
                   {"ranks", each.ranks},
                   {"rank", each.rank},
                   {"began_ns", nanoseconds(each.began)},
                   {"ended_ns", nanoseconds(each.timestamp)},
                   {"failed", each.failed},
                   {"index", each.index}}) +
             "\n";
  return lines;
}

std::string to_trace(std::span<const OperationProfile> profiles,
                     std::span<const StepProfile> steps) {
  const auto first = std::ranges::min_element(profiles, {}, &OperationProfile::began);
  const auto origin = first == profiles.end() ? decltype(first->began){} : first->began;
  const Threads threads{profiles};
  Json events = Json::array();
  threads.name_all(events);
  for (const OperationProfile& each : profiles)
    events.push_back({{"ph", "X"},
                      {"name", each.operation},
                      {"cat", each.failed ? "failed" : "operation"},
                      {"ts", microseconds(each.began - origin)},
                      {"dur", microseconds(each.duration)},
                      {"pid", each.rank},
                      {"tid", threads.of(each)},
                      {"args",
                       {{"algorithm", each.algorithm},
                        {"bytes", each.bytes.value()},
                        {"MiB/s", each.bandwidth},
                        {"ranks", each.ranks},
                        {"failed", each.failed}}}});
  for (const StepProfile& each : steps) events.push_back(event_of(each, origin, threads));
  return dump({{"traceEvents", events},
               {"displayTimeUnit", "ns"},
               {"otherData", {{"began_ns", nanoseconds(origin)}}}});
}

std::string to_prometheus(const Profiler& profiler) {
  const auto groups = profiler.groups();
  std::string text;
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto value_of) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    for (const ProfileGroup& each : groups)
      text += fmt::format("{}{{operation=\"{}\",algorithm=\"{}\"}} {}\n", name,
                          label(each.operation), label(each.algorithm), value_of(each.statistics));
  };
  add("capstan_operations_total", "counter", "Operations that have succeeded.",
      [](const ProfileStatistics& all) { return all.operations; });
  add("capstan_operation_failures_total", "counter", "Operations that have failed.",
      [](const ProfileStatistics& all) { return all.failures; });
  add("capstan_operation_bytes_total", "counter", "Bytes of operations that have succeeded.",
      [](const ProfileStatistics& all) { return all.bytes.value(); });
  text +=
      "# HELP capstan_operation_seconds Time of operations that have succeeded.\n"
      "# TYPE capstan_operation_seconds summary\n";
  for (const ProfileGroup& each : groups) {
    const ProfileStatistics& all = each.statistics;
    const std::string labels = fmt::format("operation=\"{}\",algorithm=\"{}\"",
                                           label(each.operation), label(each.algorithm));
    for (const auto& [q, milliseconds] :
         {std::pair{"0.5", all.duration.p50}, std::pair{"0.9", all.duration.p90},
          std::pair{"0.99", all.duration.p99}})
      text += fmt::format("capstan_operation_seconds{{{},quantile=\"{}\"}} {}\n", labels, q,
                          milliseconds / 1000);
    text +=
        fmt::format("capstan_operation_seconds_sum{{{}}} {}\n", labels, all.time.count() / 1000);
    text += fmt::format("capstan_operation_seconds_count{{{}}} {}\n", labels, all.operations);
  }
  return text;
}

}  // namespace capstan
