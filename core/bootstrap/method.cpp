// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/method.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/pmi.hpp"
#include "core/bootstrap/launchers/pmix.hpp"

namespace capstan {
namespace {

[[noreturn]] void refuse(const Launch& launch, const std::string& why) {
  throw BootstrapError(fmt::format("rank {}: join: {}", launch.rank, why));
}

/// Refuses a method that is set but that the launcher does not offer, and says which launchers do.
void require_offer(const Launch& launch, Bootstrap bootstrap) {
  if (bootstrap == Bootstrap::pmix && !launch.offers_pmix) {
    refuse(launch,
           fmt::format("CAPSTAN_BOOTSTRAP is pmix, but {} offers no PMIx here: start the job "
                       "with srun --mpi=pmix or Open MPI's mpirun, or set it to auto",
                       launch.launcher));
  }
  if (bootstrap == Bootstrap::pmi && !launch.pmi) {
    refuse(launch, fmt::format("CAPSTAN_BOOTSTRAP is pmi, but {} offers no PMI here: start the job "
                               "with MPICH's mpirun or srun --mpi=pmi2, or set it to auto",
                               launch.launcher));
  }
  const std::string no_pmix = bootstrap == Bootstrap::pmix ? pmix::obstacle() : "";
  if (!no_pmix.empty()) refuse(launch, no_pmix);
  if (bootstrap != Bootstrap::pmi) return;
  if (const auto obstacle = pmi::obstacle(*launch.pmi); !obstacle.empty()) refuse(launch, obstacle);
}

/// The end of the error for a job whose ranks have no method: other remedies.
std::string advice(const Launch& launch, Bootstrap bootstrap) {
  const std::string no_pmix = launch.offers_pmix ? pmix::obstacle() : "";
  if ((launch.offers_pmix && no_pmix.empty()) || launch.pmi) {
    if (bootstrap != Bootstrap::automatic) return "; or let CAPSTAN_BOOTSTRAP be auto";
    return "; " + pmi::obstacle(*launch.pmi);
  }
  if (launch.offers_pmix) return "; " + no_pmix;
  return "; Open MPI's and MPICH's mpirun and srun with --mpi=pmix or --mpi=pmi2 need neither";
}

/// The method of a job on several hosts for which no address is set.
ChosenMethod over_hosts(const Launch& launch, Bootstrap bootstrap) {
  const auto offered = [&](const char* what) {
    return fmt::format(
        "{} has started {} of {} ranks on this host, the others elsewhere, and offers {}",
        launch.launcher, launch.local_size, launch.size, what);
  };
  const bool automatic = bootstrap == Bootstrap::automatic;
  if (automatic && launch.offers_pmix && pmix::obstacle().empty())
    return {Method::pmix, offered("PMIx")};
  if (automatic && launch.pmi && pmi::obstacle(*launch.pmi).empty())
    return {Method::pmi, offered("PMI")};
  refuse(
      launch,
      fmt::format("{} has started {} of {} ranks on this host, the others elsewhere, and no "
                  "address is known where all can meet: set CAPSTAN_STORE=host:port, on the host "
                  "of rank 0, and CAPSTAN_SECRET for all ranks{}",
                  launch.launcher, launch.local_size, launch.size, advice(launch, bootstrap)));
}

}  // namespace

bool on_several_hosts(const Launch& launch) {
  return launch.local_size >= 0 && launch.local_size < launch.size;
}

ChosenMethod choose_method(const Launch& launch, Bootstrap bootstrap) {
  const bool by_launcher = launch.store && launch.store->hosted_by_launcher;
  if (launch.size == 1 && !by_launcher) return {Method::alone, "there is one rank"};
  if (bootstrap == Bootstrap::pmix || bootstrap == Bootstrap::pmi) {
    require_offer(launch, bootstrap);
    return {bootstrap == Bootstrap::pmix ? Method::pmix : Method::pmi, "CAPSTAN_BOOTSTRAP says so"};
  }
  if (by_launcher) return {Method::launchers_store, launch.launcher + " serves it"};
  if (launch.store) return {Method::set_address, "the environment names it"};
  if (on_several_hosts(launch)) return over_hosts(launch, bootstrap);
  return {Method::this_host, launch.local_size < 0 ? "nothing says that there are several hosts"
                                                   : "all ranks are on this host"};
}

}  // namespace capstan
