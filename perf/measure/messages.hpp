// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/profiles/machine_state.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/message_ends.hpp"
#include "perf/measure/message_patterns.hpp"
#include "perf/measure/table.hpp"

namespace capstan::perf {

/// Messages of one size between pairs of ranks, (0, 1), (2, 3) and so on, all at once. Times are
/// those of the slowest pair, in microseconds; bandwidths and rates are sums over all pairs.
struct MessageMeasurement {
  Bytes bytes{};
  double latency = 0, least = 0;  ///< half of a round trip: median, least
  double spread = 0;              ///< of the latency, as Measurement::spread
  double one_way = 0;             ///< GB/s from the even ranks to the odd ones
  double both_ways = 0;           ///< GB/s of both directions together
  double rate = 0;                ///< messages in a second, one way
  std::uint64_t wrong = 0;        ///< bytes that arrived wrong
  std::vector<double> round_trips{}, windows{}, exchanges{};  ///< of all rounds, us
  MachineState state{};
  std::optional<Distribution> distribution{};  ///< of the halves of single round trips
};

/// Measures messages. Every rank makes the same calls; the last one of an odd number only waits.
class MessageBench {
 public:
  MessageBench(Communicator& world, Bytes largest, const MeasureOptions& options);
  MessageMeasurement measure(Bytes size);

 private:
  MessageRun run_of(MessagePattern pattern, std::size_t bytes);
  std::vector<double> time(const MessageRun& run, Laps* laps = nullptr);
  double time_calls(const MessageRun& run, std::uint64_t calls);
  double slowest(double microseconds);
  std::uint64_t check(std::size_t bytes);

  Communicator& world_;
  const MeasureOptions options_;
  const int peer_;                          // -1: none
  std::optional<Communicator> all_paired_;  // ranks, where one is left over
  std::vector<std::byte> out_, in_;
  MessageEnds ends_{world_};
  Laps* laps_ = nullptr;  // where single calls are timed
};

Table messages_table(TableFormat format, int width, bool percentiles);
std::string table_line(const Table& table, const MessageMeasurement& measurement);
nlohmann::json to_json(const MessageMeasurement& measurement);

}  // namespace capstan::perf
