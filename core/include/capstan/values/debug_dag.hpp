// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// A record of what tasks did, as text: the graph of tasks and of epochs of values, for Graphviz,
/// and a trace of events for ui.perfetto.dev (or chrome://tracing), where each thread has a row.
struct DebugDag {
  std::string dot;
  std::string trace;
};

// CAPSTAN_DEBUG_DAG=PATH in the environment writes PATH.PROCESS.dot and PATH.PROCESS.json at the
// end of the process. A program may do it itself with these. Recording takes microseconds and
// memory for each task; without it each event costs the check of one pointer.

/// From now on events are recorded, anew.
void begin_debug_dag();
/// No more events are recorded; those that were remain.
void end_debug_dag();
/// Throws InvalidArgument if nothing was ever recorded.
DebugDag debug_dag();
/// Writes PATH.dot and PATH.json. Throws SystemError.
void write_debug_dag(const std::string& path);

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
