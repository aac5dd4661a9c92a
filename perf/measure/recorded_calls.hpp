// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/observe/operation_profile.hpp"

namespace capstan::perf {

/// Calls with the steps of which they consist.
struct RecordedCalls {
  std::vector<OperationProfile> calls;
  std::vector<StepProfile> steps;

  void append(RecordedCalls more);
};

/// Makes some calls, and gathers at rank 0 what every rank did in them; empty on other ranks. All
/// ranks call it.
RecordedCalls record_calls(Communicator& world, const Request& request, int calls);

/// A trace of all calls in the trace-event format or, where the file's name ends in .svg, a picture
/// of the last one.
std::string to_document(const RecordedCalls& recorded, const std::string& file);

}  // namespace capstan::perf
