// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/bootstrap/launchers/pmix.hpp"
#include "core/bootstrap/method.hpp"
#include "core/tools/cli/doctor/probe.hpp"

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

/// The result of `describe` for the start of this process, or the error in its environment.
template <class Describe>
Probe of_launch(const char* name, Describe describe) {
  try {
    return {name, Probe::Status::ok, describe(detect_launch(process_environment()))};
  } catch (const Error& error) {
    return {name, Probe::Status::problem, "the environment does not let ranks start", error.what()};
  }
}

/// The process management interfaces that the launcher offers, used or not.
std::string offer_of(const Launch& launch) {
  std::string offer;
  if (launch.offers_pmix) offer += ", which offers PMIx";
  if (const std::string no_pmix = launch.offers_pmix ? pmix::obstacle() : ""; !no_pmix.empty())
    offer += fmt::format(" ({})", no_pmix);
  if (launch.pmi) offer += ", which offers PMI";
  return offer;
}

Probe launched_by() {
  return of_launch("this process", [](const Launch& launch) {
    return fmt::format("rank {} of {}, started by {}{}", launch.rank, launch.size, launch.launcher,
                       offer_of(launch));
  });
}

std::string_view name_of(Method method) {
  switch (method) {
    case Method::alone:
      return "no meeting";
    case Method::launchers_store:
      return "at the launcher's store";
    case Method::set_address:
      return "at rank 0's store, whose address is set";
    case Method::pmix:
      return "by the launcher's PMIx";
    case Method::pmi:
      return "by the launcher's PMI";
    case Method::this_host:
      return "at a local socket of rank 0's";
  }
  return "";
}

Probe start_up() {
  return of_launch("start-up", [](const Launch& launch) {
    const auto choice = choose_method(launch, Settings::from_environment().bootstrap);
    return fmt::format("{}: {}", name_of(choice.method), choice.reason);
  });
}

}  // namespace

Probes launch_probes() {
  return {launchers, launched_by, start_up};
}

}  // namespace capstan::cli
