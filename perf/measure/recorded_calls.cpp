// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/recorded_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "capstan/observe/exports.hpp"
#include "capstan/observe/profiler.hpp"

namespace capstan::perf {
namespace {

using nlohmann::json;
using SystemTime = std::chrono::system_clock::time_point;

std::int64_t count(SystemTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
SystemTime time(std::int64_t nanoseconds) {
  return SystemTime{
      std::chrono::duration_cast<SystemTime::duration>(std::chrono::nanoseconds{nanoseconds})};
}

json to_json(const RecordedCalls& recorded) {
  json calls = json::array(), steps = json::array();
  for (const OperationProfile& each : recorded.calls)
    calls.push_back({each.operation, each.bytes.value(), each.duration.count(), each.bandwidth,
                     each.ranks, each.algorithm, count(each.began), count(each.timestamp),
                     each.rank, each.index});
  for (const StepProfile& each : recorded.steps)
    steps.push_back({each.step, each.peer, each.bytes.value(), each.block, each.number,
                     count(each.began), each.duration.count(), each.rank, each.operation});
  return {std::move(calls), std::move(steps)};
}

RecordedCalls from_json(const json& document) {
  RecordedCalls recorded;
  for (const json& each : document[0])
    recorded.calls.push_back({.operation = each[0],
                              .bytes = Bytes{each[1].get<std::uint64_t>()},
                              .duration = std::chrono::nanoseconds{each[2].get<std::int64_t>()},
                              .bandwidth = each[3],
                              .ranks = each[4],
                              .algorithm = each[5],
                              .began = time(each[6]),
                              .timestamp = time(each[7]),
                              .rank = each[8],
                              .tag = {},
                              .index = each[9]});
  for (const json& each : document[1])
    recorded.steps.push_back({.step = each[0],
                              .peer = each[1],
                              .bytes = Bytes{each[2].get<std::uint64_t>()},
                              .block = each[3],
                              .number = each[4],
                              .began = time(each[5]),
                              .duration = std::chrono::nanoseconds{each[6].get<std::int64_t>()},
                              .rank = each[7],
                              .tag = {},
                              .operation = each[8]});
  return recorded;
}

/// The calls of all ranks at rank 0, to which the others send theirs; nothing on other ranks.
RecordedCalls gathered(Communicator& world, RecordedCalls own) {
  if (world.rank() != 0) {
    const std::string text = to_json(own).dump();
    const std::uint64_t length = text.size();
    world.send(std::span{&length, 1}, 0);
    world.send(std::span{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, 0);
    return {};
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    std::uint64_t length = 0;
    world.receive(std::span{&length, 1}, rank);
    std::vector<std::uint8_t> text(length);
    world.receive(std::span{text}, rank);
    own.append(from_json(json::parse(text)));
  }
  return own;
}

/// The steps of each rank's last call.
std::vector<StepProfile> of_last_call(const RecordedCalls& recorded) {
  std::map<int, const OperationProfile*> last;
  for (const OperationProfile& call : recorded.calls)
    if (const auto [entry, added] = last.try_emplace(call.rank, &call);
        !added && call.began > entry->second->began)
      entry->second = &call;
  std::vector<StepProfile> steps;
  std::ranges::copy_if(recorded.steps, std::back_inserter(steps), [&](const StepProfile& step) {
    const OperationProfile& call = *last.at(step.rank);
    return step.operation == call.index && step.began >= call.began;
  });
  return steps;
}

}  // namespace

void RecordedCalls::append(RecordedCalls more) {
  std::ranges::move(more.calls, std::back_inserter(calls));
  std::ranges::move(more.steps, std::back_inserter(steps));
}

RecordedCalls record_calls(Communicator& world, const Request& request, int calls) {
  constexpr std::size_t most_steps = 1 << 16;
  const Profiler profiler{ProfilerOptions{.steps = most_steps}};
  world.barrier();
  world.attach(profiler);
  for (int i = 0; i < calls; ++i) world.run(request);
  world.detach_profiler();
  return gathered(world, {profiler.profiles(), profiler.steps()});
}

std::string to_document(const RecordedCalls& recorded, const std::string& file) {
  if (!file.ends_with(".svg") || recorded.calls.empty())
    return to_trace(recorded.calls, recorded.steps);
  const OperationProfile& call = recorded.calls.back();
  return to_picture(of_last_call(recorded),
                    fmt::format("{} of {} bytes on {} ranks, {}", call.operation,
                                call.bytes.value(), call.ranks, call.algorithm));
}

}  // namespace capstan::perf
