// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/job_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace capstan {
namespace {

constexpr int most_generations = 64;

struct Process {
  int id;
  std::string name;
  int parent;
  std::string start_time;
};

/// From /proc/<id>/stat: "id (name) state parent ...", the start time being field 22. The name may
/// hold spaces and parentheses of its own.
std::optional<Process> read_process(int id) {
  std::ifstream file{fmt::format("/proc/{}/stat", id)};
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos) return std::nullopt;
  std::istringstream fields{text.substr(close + 1)};
  Process process{id, text.substr(open + 1, close - open - 1), 0, {}};
  std::string skipped;
  fields >> skipped >> process.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  if (!(fields >> process.start_time)) return std::nullopt;
  return process;
}

/// Names of processes, cut to 15 characters as by the kernel.
bool is_launcher(std::string_view name) {
  constexpr std::array<std::string_view, 10> launchers{
      "hydra_pmi_proxy", "pmi_proxy", "mpiexec.hydra", "orted",   "orterun",
      "mpirun",          "mpiexec",   "prted",         "prterun", "mpirun.openmpi"};
  return std::ranges::find(launchers, name) != launchers.end();
}

/// A library that a stranger has mapped is not to be loaded.
bool is_trusted(int id) {
  struct stat status{};
  return ::stat(fmt::format("/proc/{}", id).c_str(), &status) == 0 &&
         (status.st_uid == 0 || status.st_uid == ::geteuid());
}

/// Lines of /proc/<id>/maps end in a path, where a file is mapped: where `name` is a link to one,
/// in that of libpmix.so.2.6.2.
std::string mapped_by(int id, std::string_view name) {
  std::ifstream maps{fmt::format("/proc/{}/maps", id)};
  for (std::string line; std::getline(maps, line);) {
    const std::string_view file = std::string_view{line}.substr(line.rfind('/') + 1);
    if (file == name || file.starts_with(fmt::format("{}.", name)))
      return line.substr(line.find('/'));
  }
  return {};
}

/// Whether the process was started with these variables; false where that cannot be seen.
bool was_started_with(int id, std::span<const std::pair<std::string, std::string>> variables) {
  std::ifstream file{fmt::format("/proc/{}/environ", id)};
  std::size_t found = 0;
  for (std::string line; std::getline(file, line, '\0');)
    found += static_cast<std::size_t>(std::ranges::count_if(variables, [&](const auto& variable) {
      return line == variable.first + "=" + variable.second;
    }));
  return found == variables.size();
}

std::string identity_of(const Process& process) {
  return fmt::format("{}-{}-{}", process.name, process.id, process.start_time);
}

}  // namespace

std::string launcher_process_identity() {
  const int parent = ::getppid();
  const auto direct = read_process(parent);
  auto ancestor = direct;
  for (int i = 0; i < most_generations && ancestor; ++i) {
    if (is_launcher(ancestor->name)) return identity_of(*ancestor);
    ancestor = read_process(ancestor->parent);
  }
  return direct ? identity_of(*direct) : fmt::format("process-{}", parent);
}

Inner inner_launcher(std::span<const std::pair<std::string, std::string>> slurms) {
  auto ancestor = read_process(::getppid());
  for (int i = 0; i < most_generations && ancestor; ++i) {
    if (ancestor->name == "slurmstepd") return Inner::slurm;
    if (is_launcher(ancestor->name) || ancestor->name == "capstan")
      return was_started_with(ancestor->id, slurms) ? Inner::launcher : Inner::slurm;
    ancestor = read_process(ancestor->parent);
  }
  return Inner::unknown;
}

bool descends_from(pid_t ancestor) {
  int id = ::getppid();
  for (int i = 0; i < most_generations && id > 0; ++i) {
    if (id == ancestor) return true;
    const auto process = read_process(id);
    if (!process) return true;
    id = process->parent;
  }
  return false;
}

std::string mapped_by_ancestor(std::string_view name) {
  auto ancestor = read_process(::getppid());
  for (int i = 0; i < most_generations && ancestor; ++i) {
    if (is_trusted(ancestor->id))
      if (std::string path = mapped_by(ancestor->id, name); !path.empty()) return path;
    ancestor = read_process(ancestor->parent);
  }
  return {};
}

}  // namespace capstan
