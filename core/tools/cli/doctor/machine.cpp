// SPDX-License-Identifier: Apache-2.0
#include "topology/machine.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

Probe system() {
  utsname name{};
  ::uname(&name);
  return {"system", Probe::Status::ok,
          fmt::format("{} {} {}", name.sysname, name.release, name.machine)};
}

Probe processors() {
  const Machine machine = Machine::discover();
  const auto online = ::sysconf(_SC_NPROCESSORS_ONLN);
  Probe probe{"processors", Probe::Status::ok,
              fmt::format("{} of {} may be used, {} cores, {} NUMA nodes",
                          machine.processing_units().size(), online, machine.cores().size(),
                          machine.numa_nodes())};
  if (machine.processing_units().size() < static_cast<std::size_t>(online)) {
    probe.status = Probe::Status::note;
    probe.remedy =
        "an affinity mask or a cgroup keeps the others away: more ranks than cores are slow";
  }
  return probe;
}

}  // namespace

Probes machine_probes() {
  return {system, processors};
}

}  // namespace capstan::cli
