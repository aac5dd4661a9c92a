#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// How long it took a job to begin: milliseconds from the start of a process, on the slowest rank.
struct StartUp {
  double ready = 0;             ///< until its communicator was made
  double first_collective = 0;  ///< until its first collective had ended, an all-reduce of 8 bytes
};

/// Milliseconds since this process was started. Exact to the time that it has been kept from a
/// processor before main, and to a tick of the kernel's clock (10 ms) at worst.
double since_process_start();

/// To be called by all ranks right after their communicator was made: makes its first collective.
StartUp measure_start_up(Communicator& world);

/// "# start-up: ..." for the end of a table.
std::string to_line(const StartUp& start_up);
nlohmann::json to_json(const StartUp& start_up);

}  // namespace capstan::perf
