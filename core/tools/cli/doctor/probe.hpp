// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

/// One line of what `capstan doctor` reports.
struct Probe {
  enum class Status { ok, note, problem };
  std::string name;
  Status status = Status::ok;
  std::string value;
  std::string remedy{};  ///< what to do about it, unless the status is ok
};

/// May throw, which is reported as a problem.
using ProbeFunction = Probe (*)();
using Probes = std::vector<ProbeFunction>;

// Each subject has a list of probes in the file of its name. To add a probe, write a function there
// and add it to the list. To add a subject, also add a line here and one in doctor_command.cpp.
Probes build_probes();
Probes machine_probes();
Probes kernel_probes();
Probes memory_probes();
Probes limit_probes();
Probes device_probes();
Probes gpu_direct_probes();
Probes network_probes();
Probes launch_probes();

/// The first line of a file without its newline; empty when the file cannot be read.
std::string first_line(const std::string& path);

}  // namespace capstan::cli
