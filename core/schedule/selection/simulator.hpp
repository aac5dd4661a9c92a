// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/hosts.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/program.hpp"
#include "core/schedule/selection/link_model.hpp"

namespace capstan {

/// Facts about a call that its programs do not hold.
struct SimulatedCall {
  Bytes element{};
  bool synchronizes = true;         ///< see Guarantees
  bool in_place = false;            ///< copies of inputs to outputs change nothing
  Bytes of_rank{};                  ///< input and output of the rank that has most
  Bytes of_all{};                   ///< inputs and outputs of all ranks
  Bytes shortest{};                 ///< the shortest buffer of all ranks that is not empty
  PeerMappedBuffers peer_mapped{};  ///< buffers that peers load from instead of reading them
  MemoryKind memory{};
};

/// The time of one call in nanoseconds, by what the slowest rank does in it.
struct PredictedTime {
  double latency = 0;    ///< fixed costs of calls, messages, flags and first cache lines
  double bandwidth = 0;  ///< moving bytes
  double reduction = 0;  ///< combining them
  double waiting = 0;    ///< for ranks that are busy, and for memory that others read

  double total() const { return latency + bandwidth + reduction + waiting; }
  PredictedTime operator-(const PredictedTime& other) const {
    return {latency - other.latency, bandwidth - other.bandwidth, reduction - other.reduction,
            waiting - other.waiting};
  }
  PredictedTime operator*(double factor) const {
    return {latency * factor, bandwidth * factor, reduction * factor, waiting * factor};
  }
};

/// When a rank ran an operation of its program, in nanoseconds from the first one of the call.
struct SimulatedSpan {
  Rank rank{};
  std::size_t op = 0;  ///< index in the rank's program
  double begin = 0, end = 0;
};

/// Predicted time of one call among equal calls that follow one another. `programs` are the
/// programs of all ranks for one block. `trace`, if it is not null, gets the spans of one call. A
/// pure function.
PredictedTime simulate(const ByRank<Program>& programs, const Hosts& hosts,
                       const SimulatedCall& call, const LinkModel& model,
                       std::vector<SimulatedSpan>* trace = nullptr);

}  // namespace capstan
