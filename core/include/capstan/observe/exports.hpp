// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "capstan/export.hpp"
#include "capstan/observe/operation_profile.hpp"
#include "capstan/observe/profiler.hpp"

namespace CAPSTAN_EXPORT capstan {

/// One JSON object a line for each operation: operation, algorithm, tag, bytes, duration_ns,
/// bandwidth_mib_per_s, ranks, rank, began_ns and ended_ns since 1970, failed, index.
std::string to_json_lines(std::span<const OperationProfile> profiles);

/// In the trace-event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show. Each rank
/// is a process, each tag one of its threads. Operations of several ranks may be passed together:
/// their times are those of the system's clock, which ranks of one host share, and count from the
/// first operation. Steps lie within the operations that they belong to.
std::string to_trace(std::span<const OperationProfile> profiles,
                     std::span<const StepProfile> steps = {});

/// A picture (SVG) of steps over time, a row for each rank: by kind in colours that the
/// colour-blind tell apart, with what each step is under the pointer.
std::string to_picture(std::span<const StepProfile> steps, const std::string& title);

/// In the text format of Prometheus: counters of operations, failures and bytes, and a summary of
/// seconds, for each operation and algorithm.
std::string to_prometheus(const Profiler& profiler);

}  // namespace CAPSTAN_EXPORT capstan
