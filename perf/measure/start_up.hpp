// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// Duration of a job's start: milliseconds since the start of the process, on the slowest rank.
struct StartUp {
  double ready = 0;             ///< until the communicator was made
  double first_collective = 0;  ///< until the first collective, an all-reduce of 8 bytes, had ended
};

/// Milliseconds since the start of this process. The error is at most the time that the process was
/// not scheduled before main, and never more than a tick of the kernel's clock (10 ms).
double since_process_start();

/// Makes the first collective of a communicator. All ranks call it right after making it.
StartUp measure_start_up(Communicator& world);

/// "# start-up: ..." for the end of a table.
std::string to_line(const StartUp& start_up);
nlohmann::json to_json(const StartUp& start_up);

}  // namespace capstan::perf
