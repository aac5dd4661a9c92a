// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/doctor/probe.hpp"
#include "core/tools/cli/options.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

namespace {

/// All subjects, in the order of the report.
constexpr Probes (*subjects[])() = {
    build_probes,      machine_probes, kernel_probes,  memory_probes, limit_probes,
    gpu_direct_probes, device_probes,  network_probes, launch_probes,
};

/// A probe that throws is reported as a problem; the report continues.
Probe safely(ProbeFunction probe) {
  try {
    return probe();
  } catch (const std::exception& error) {
    return {"probe", Probe::Status::problem, "failed", error.what()};
  }
}

std::string_view name_of(Probe::Status status) {
  constexpr std::string_view names[] = {"OK", "note", "PROBLEM"};
  return names[static_cast<int>(status)];
}

void print(const Probe& probe) {
  perf::print_folded("{:<20} {:<7}  {}\n", probe.name, name_of(probe.status), probe.value);
  if (!probe.remedy.empty()) perf::print_folded("{:<29} {}\n", "", probe.remedy);
}

int run(const std::string& json) {
  perf::check_writable(json);
  nlohmann::json lines = nlohmann::json::array();
  for (const auto probes : subjects)
    for (const ProbeFunction probe : probes()) {
      const Probe result = safely(probe);
      lines.push_back({{"name", result.name},
                       {"status", name_of(result.status)},
                       {"value", result.value},
                       {"remedy", result.remedy}});
      if (prints_text(json)) print(result);
    }
  write_json(json, lines);
  return 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "doctor", "Report what this build supports, what this machine has, and what limits it");
  const auto json = std::make_shared<std::string>();
  add_json_option(*command, *json);
  command->footer(
      "Examples:\n  capstan doctor\n  mpirun -n 2 capstan doctor     as ranks under this launcher "
      "see it");
  command->callback([json, &status] { status = run(*json); });
}

}  // namespace capstan::cli
