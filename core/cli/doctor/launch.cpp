#include "core/runtime/bootstrap/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "core/cli/doctor/probe.hpp"
#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/pmix.hpp"

namespace capstan::cli {
namespace {

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
  return {"launchers", Probe::Status::ok, found.empty() ? "capstan run" : "capstan run, " + found};
}

Probe launched_by() {
  try {
    const Launch launch = detect_launch(process_environment());
    return {"this process", Probe::Status::ok,
            fmt::format("rank {} of {}, started by {}{}", launch.rank, launch.size, launch.launcher,
                        !launch.offers_pmix ? ""
                        : pmix::built()     ? ", which offers PMIx"
                                            : ", which offers PMIx; this build has none")};
  } catch (const Error& error) {
    return {"this process", Probe::Status::problem, "the environment contradicts itself",
            error.what()};
  }
}

}  // namespace

Probes launch_probes() {
  return {launchers, launched_by};
}

}  // namespace capstan::cli
