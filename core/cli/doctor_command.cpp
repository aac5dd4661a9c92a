#include <fmt/format.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/file_descriptor.hpp"
#include "core/base/network.hpp"
#include "core/cli/commands.hpp"
#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/launch.hpp"
#include "core/runtime/bootstrap/pmix.hpp"
#include "core/settings.hpp"
#include "kernels/cpu/reduce.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// One line of the report.
struct Probe {
  enum class Status { ok, note, problem };
  std::string name;
  Status status = Status::ok;
  std::string value;
  std::string remedy;  ///< when it is not ok
};

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

Probe build() {
  const std::string sanitize = CAPSTAN_SANITIZE;
  return {"build", Probe::Status::ok,
          fmt::format("{}, {}, g++ {}{}", CAPSTAN_VERSION, CAPSTAN_BUILD_TYPE, __VERSION__,
                      sanitize.empty() ? "" : ", sanitizers: " + sanitize),
          ""};
}

Probe kernels_built() {
  std::string targets;
  for (const auto target : kernels::available_targets()) targets += fmt::format(" {}", target);
  return {"kernels", Probe::Status::ok,
          fmt::format("{} in use; this CPU runs{}", kernels::active_target(), targets), ""};
}

Probe transports() {
  return {"transports", Probe::Status::ok, "threads, shm", ""};
}

Probe system() {
  utsname name{};
  ::uname(&name);
  return {"system", Probe::Status::ok,
          fmt::format("{} {} {}", name.sysname, name.release, name.machine), ""};
}

Probe processors() {
  const Machine machine = Machine::discover();
  const auto online = ::sysconf(_SC_NPROCESSORS_ONLN);
  Probe probe{"processors", Probe::Status::ok,
              fmt::format("{} of {} may be used, {} cores, {} NUMA nodes",
                          machine.processing_units().size(), online, machine.cores().size(),
                          machine.numa_nodes()),
              ""};
  if (machine.processing_units().size() < static_cast<std::size_t>(online)) {
    probe.status = Probe::Status::note;
    probe.remedy =
        "an affinity mask or a cgroup keeps the others away: more ranks than cores are slow";
  }
  return probe;
}

Probe memory() {
  const std::string total = first_line("/proc/meminfo");
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  return {"memory", Probe::Status::ok,
          fmt::format("{}{}", total,
                      limit.empty() || limit == "max" ? "" : ", limited by a cgroup to " + limit),
          ""};
}

Probe memfd() {
  const FileDescriptor fd{
      static_cast<int>(::syscall(SYS_memfd_create, "capstan", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
  if (fd.valid()) return {"memfd", Probe::Status::ok, "shared memory without a name", ""};
  return {"memfd", Probe::Status::problem, std::strerror(errno),
          "the shm transport needs memfd_create (Linux 3.17 or later, not forbidden by seccomp)"};
}

Probe pidfd() {
  const FileDescriptor fd{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  if (fd.valid()) return {"pidfd", Probe::Status::ok, "the death of a peer is seen at once", ""};
  return {"pidfd", Probe::Status::note, std::strerror(errno),
          "Linux 5.3 or later has it; until then connections are watched instead"};
}

Probe membarrier() {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands > 0 && commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED)
    return {"membarrier", Probe::Status::ok, "sleepers are woken without a fence on the fast path",
            ""};
  return {
      "membarrier", Probe::Status::note, "absent",
      "sleeps are bounded to 1 ms instead; allow membarrier in the container's seccomp profile"};
}

/// Really reads a child's memory.
Probe cross_memory_attach() {
  int value = 4711, copy = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  iovec local{&copy, sizeof copy}, remote{&value, sizeof value};
  const ssize_t got = ::process_vm_readv(child, &local, 1, &remote, 1, 0);
  const int error = errno;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (got == sizeof copy && copy == value)
    return {"cross-memory attach", Probe::Status::ok, "process_vm_readv works", ""};
  return {
      "cross-memory attach", Probe::Status::note, std::strerror(error),
      "see /proc/sys/kernel/yama/ptrace_scope; long messages are staged instead, which is slower"};
}

Probe huge_pages() {
  const std::string mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (mode.find("[never]") == std::string::npos && !mode.empty())
    return {"huge pages", Probe::Status::ok, mode, ""};
  return {"huge pages", Probe::Status::note, mode.empty() ? "unknown" : mode,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large buffers gain 20 %"};
}

Probe locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  return {"locked memory", unlimited ? Probe::Status::ok : Probe::Status::note,
          unlimited ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur >> 10),
          unlimited ? "" : "shared memory does not need it; RDMA would: ulimit -l unlimited"};
}

/// Under which address ranks on other hosts would reach this one, and why that one.
Probe network() {
  const auto addresses = host_addresses();
  const auto chosen = choose_address(Settings::from_environment().interface, addresses);
  std::string others;
  for (const HostAddress& each : addresses)
    if (each.text != chosen.address.text && !each.loopback)
      others += fmt::format("{} {} {}{}", others.empty() ? "; not" : ",", each.interface, each.text,
                            each.up && each.running ? "" : " (not connected)");
  const auto value = fmt::format("{} {}: {}{}", chosen.address.interface, chosen.address.text,
                                 chosen.reason, others);
  if (!chosen.address.loopback) return {"network", Probe::Status::ok, value, ""};
  return {"network", Probe::Status::note, value,
          "a job over several hosts takes an interface that they share: CAPSTAN_INTERFACE"};
}

bool on_path(const std::string& program) {
  std::istringstream path{std::getenv("PATH") ? std::getenv("PATH") : ""};
  for (std::string folder; std::getline(path, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

Probe launchers() {
  std::string found;
  for (const char* program : {"mpirun.openmpi", "mpirun.mpich", "mpirun", "srun", "torchrun"})
    if (on_path(program)) found += fmt::format("{}{}", found.empty() ? "" : ", ", program);
  return {"launchers", Probe::Status::ok, found.empty() ? "capstan run" : "capstan run, " + found,
          ""};
}

Probe launched_by() {
  try {
    const Launch launch = detect_launch(process_environment());
    return {"this process", Probe::Status::ok,
            fmt::format("rank {} of {}, started by {}{}", launch.rank, launch.size, launch.launcher,
                        !launch.offers_pmix ? ""
                        : pmix::built()     ? ", which offers PMIx"
                                            : ", which offers PMIx; this build has none"),
            ""};
  } catch (const Error& error) {
    return {"this process", Probe::Status::problem, "the environment contradicts itself",
            error.what()};
  }
}

/// A probe that fails is a finding, not the end of the report.
Probe safely(Probe (*probe)()) {
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

int run(bool json) {
  nlohmann::json lines = nlohmann::json::array();
  for (const auto probe :
       {build, kernels_built, transports, system, processors, memory, memfd, pidfd, membarrier,
        cross_memory_attach, huge_pages, locked_memory, network, launchers, launched_by}) {
    const Probe result = safely(probe);
    lines.push_back({{"name", result.name},
                     {"status", name_of(result.status)},
                     {"value", result.value},
                     {"remedy", result.remedy}});
    if (json) continue;
    fmt::print("{:<20} {:<8} {}\n", result.name, name_of(result.status), result.value);
    if (!result.remedy.empty()) fmt::print("{:<29} {}\n", "", result.remedy);
  }
  if (json) fmt::print("{}\n", lines.dump(2));
  return 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("doctor", "Say what is built in, what this machine has, what limits it");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Example:\n  capstan doctor\n  mpirun -n 2 capstan doctor     what ranks would see");
  command->callback([json, &status] { status = run(*json); });
}

}  // namespace capstan::cli
