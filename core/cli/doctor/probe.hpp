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
  std::string remedy{};  ///< when it is not ok
};

/// May throw: that is a finding, too.
using ProbeFunction = Probe (*)();
using Probes = std::vector<ProbeFunction>;

// One list for each subject, in the file of that name. A new probe is a function there and its name
// in the list; a new subject also a line here and one in doctor_command.cpp.
Probes build_probes();
Probes machine_probes();
Probes kernel_probes();
Probes memory_probes();
Probes gpu_direct_probes();
Probes network_probes();
Probes launch_probes();

/// The first line of a file, without its end; empty when it cannot be read.
std::string first_line(const std::string& path);

}  // namespace capstan::cli
