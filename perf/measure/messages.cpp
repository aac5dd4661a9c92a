// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "perf/measure/report.hpp"
#include "perf/measure/statistics.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

MessageBench::MessageBench(Communicator& world, Bytes largest, const MeasureOptions& options)
    : world_(world),
      options_(options),
      peer_(message_peer(world.rank(), world.size())),
      all_paired_(world.size() % 2 == 0 ? std::nullopt : world.split(peer_ < 0 ? -1 : 0)),
      out_(std::max<std::size_t>(largest.value(), 1)),
      in_(out_.size()) {
  for (std::size_t at = 0; at < out_.size(); ++at) out_[at] = message_byte(world.rank(), at);
}

MessageRun MessageBench::run_of(MessagePattern pattern, std::size_t bytes) {
  return {.pattern = pattern,
          .rank = world_.rank(),
          .peer = peer_,
          .bytes = bytes,
          .window = options_.window,
          .out = out_.data(),
          .in = in_.data()};
}

double MessageBench::slowest(double microseconds) {
  world_.all_reduce(std::span{&microseconds, 1}, ReduceOp::max);
  return microseconds;
}

/// Microseconds of a run, on the slowest pair.
double MessageBench::time_calls(const MessageRun& run, std::uint64_t calls) {
  if (laps_) laps_->begin(calls);
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < calls && peer_ >= 0; ++i) {
    run_messages(ends_, run);
    if (laps_) laps_->next();
  }
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
  return slowest(elapsed.count() / static_cast<double>(calls));
}

/// The times of all rounds. Each says how many calls fit into the next one: other programs may come
/// to need the cores.
std::vector<double> MessageBench::time(const MessageRun& run, Laps* laps) {
  const double share = options_.seconds / 3 / options_.rounds * 1e6;
  std::vector<double> times;
  double each = time_calls(run, options_.warm_up + 3);
  for (double left = options_.seconds / 3 * 1e6;
       times.empty() || (left > 0 && times.size() < static_cast<std::size_t>(options_.rounds));) {
    const double calls = std::clamp(std::floor(share / each), 1.0, 1000.0);
    laps_ = laps;
    each = time_calls(run, static_cast<std::uint64_t>(calls));
    laps_ = nullptr;
    left -= each * calls;
    times.push_back(each);
  }
  return times;
}

std::uint64_t MessageBench::check(std::size_t bytes) {
  std::uint64_t wrong = 0;
  if (peer_ >= 0) {
    std::ranges::fill(in_, std::byte{0});
    run_messages(ends_, run_of(MessagePattern::latency, bytes));
    for (std::size_t at = 0; at < bytes; ++at) wrong += in_[at] != message_byte(peer_, at);
  }
  world_.all_reduce(std::span{&wrong, 1});
  return wrong;
}

MessageMeasurement MessageBench::measure(Bytes size) {
  const std::size_t bytes = size.value();
  MessageMeasurement result{.bytes = size};
  if (options_.check) result.wrong = check(bytes);
  const MachineReading before = read_machine();
  Laps laps;
  result.round_trips =
      time(run_of(MessagePattern::latency, bytes), options_.percentiles ? &laps : nullptr);
  result.windows = time(run_of(MessagePattern::bandwidth, bytes));
  result.exchanges = time(run_of(MessagePattern::bidirectional, bytes));
  result.state = state_since(world_, before);
  if (options_.percentiles && peer_ >= 0) {
    constexpr int ways = 2;
    result.distribution = distribution_of(all_paired_ ? *all_paired_ : world_, laps, ways);
  }
  const Statistics trips{result.round_trips};
  result.latency = trips.median() / 2, result.least = trips.least() / 2;
  result.spread = trips.spread();
  const double messages = options_.window * (world_.size() / 2);
  const double way = Statistics{result.windows}.median();
  result.rate = messages / way * 1e6;
  result.one_way = result.rate * static_cast<double>(bytes) / 1e9;
  result.both_ways =
      2 * messages * static_cast<double>(bytes) / Statistics{result.exchanges}.median() / 1e3;
  return result;
}

Table messages_table(TableFormat format, int width, bool percentiles) {
  std::vector<Column> columns{{"size", "(bytes)", 11},   {"latency", "(us)", 9},
                              {"min", "(us)", 9, 12},    {"spread", "(%)", 6, 11},
                              {"one way", "(GB/s)", 9},  {"both ways", "(GB/s)", 9, 1},
                              {"rate", "(1000/s)", 9, 2}};
  if (percentiles) {
    const std::vector<Column> more = distribution_columns();
    columns.insert(columns.end(), more.begin(), more.end());
  }
  return {std::move(columns), width, format};
}

std::string table_line(const Table& table, const MessageMeasurement& m) {
  const auto number = [](double value) { return fmt::format("{:.2f}", value); };
  std::vector<std::string> values{fmt::to_string(m.bytes.value()),
                                  number(m.latency),
                                  number(m.least),
                                  fmt::format("{:.1f}", 100 * m.spread),
                                  fmt::format("{:.3f}", m.one_way),
                                  fmt::format("{:.3f}", m.both_ways),
                                  fmt::format("{:.1f}", m.rate / 1e3)};
  if (m.distribution)
    for (const double Distribution::* each : distribution_values)
      values.push_back(number(*m.distribution.*each));
  return table.line(std::move(values), doubts_about(m.wrong, m.spread, m.state));
}

nlohmann::json to_json(const MessageMeasurement& m) {
  nlohmann::json json{{"bytes", m.bytes.value()},    {"latency_us", m.latency},
                      {"min_us", m.least},           {"spread", m.spread},
                      {"one_way_gbps", m.one_way},   {"both_ways_gbps", m.both_ways},
                      {"messages_per_s", m.rate},    {"wrong", m.wrong},
                      {"machine", to_json(m.state)}, {"round_trips_us", m.round_trips},
                      {"windows_us", m.windows},     {"exchanges_us", m.exchanges}};
  if (m.distribution) json["single_calls"] = to_json(*m.distribution);
  return json;
}

}  // namespace capstan::perf
